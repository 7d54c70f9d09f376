"""Which tests a planted fault meets first, and where its line is."""

from __future__ import annotations

from tests.planting import Fault, near


def test_nearest_tests_come_first() -> None:
    joins = Fault("rule", "apps/flows/rules/joins.py", 71, "", "")
    assert near(joins)[0] == "tests/unit/flows/test_definition.py"
    errors = Fault("template", "templates/errors.html", 18, "", "")
    assert "tests/integration/common/test_problems.py" in near(errors)[:3]
    search = Fault("script", "static/taskplatform/search.js", 149, "", "")
    assert near(search)[0] == "tests/browser/test_search.py"


def test_line_is_found_where_it_has_moved() -> None:
    fault = Fault("rule", "x.py", 3, "b", "c")
    assert [fault.in_text(text) for text in ("a\nb\na\na\nb", "a")] == [
        Fault("rule", "x.py", 2, "b", "c"),
        None,
    ]
