"""S0.2: what texts must look like by formats and patterns."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from apps.common.errors import Invalid
from apps.common.json import schema as json_schema
from apps.common.json.schema import FORMATS, check_params, check_schema
from tests.unit.common.test_json_schema import fits


# --- formats --------------------------------------------------------------------------------------
def test_formats_are_those_that_the_library_knows() -> None:
    for name in FORMATS:
        jsonschema_rs.Draft202012Validator({"format": name}, ignore_unknown_formats=False)
        check_schema({"type": "object", "items": {"format": name}})
    assert set(FORMAT_CASES) == FORMATS


FORMAT_CASES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "date": (("2026-02-28",), ("2026-02-29", "2.3.", "٢٠٢٦-01-01", "2026-02-28\n")),
    "time": (("08:30:06Z", "10:00:00.5+08:00"), ("10:00:00", "12:00", "10:00:00Z\n", "25:00:00Z")),
    "date-time": (
        ("2026-11-20T09:30:00Z", "2026-11-20T09:30:00.5+08:00"),
        ("2026-11-20 09:30:00Z", "2026-11-20T09:30:00", "2026-11-20T09:30:00+24:00", "2026-11-20"),
    ),
    "duration": (("P1D", "PT30M", "P1W"), ("PT0.5S", "1D", "P", "-P1D", "P1Y2D", "P1D\n")),
    "email": (("a@b.de", "a@b"), ("a@", "@b", "a b@c.de", "Joe <a@b.de>", "a@[127.0.0.1]")),
    "idn-email": (("ä@ö.de",), ("ä", "ä@")),
    "hostname": (("shop-7.example",), ("a_b.c", "a.", "-a", "")),
    "idn-hostname": (("bücher.example", "任务.cn"), ("a b", "")),
    "ipv4": (("10.0.0.1",), ("01.2.3.4", "10.0.0", "10.0.0.256")),
    "ipv6": (("::1", "2001:db8::1"), ("::1%eth0", ":::", "10.0.0.1")),
    "uri": (("https://example.org/a?b#c", "urn:a:b"), ("/a", "http://ä.de", "a b", "http://%zz")),
    "uri-reference": (("/a", "#b", "../c"), ("http://[", "a b", "/ä")),
    "iri": (("https://bücher.example/ä",), ("/ä", "a b")),
    "iri-reference": (("/ä", "#任"), ("http://[", "a b")),
    "uri-template": (("/a/{b}",), ("/a/{b",)),
    "uuid": (("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",), ("0f1e2d3c4b5a69788796a5b4c3d2e1f0", "x")),
    "regex": (("^a+$",), ("(a",)),
    "json-pointer": (("", "/a/b~1c"), ("a", "/a~2")),
    "relative-json-pointer": (("0", "1/a", "0#"), ("/a", "-1")),
}


def test_formats_are_asserted(subtests: pytest.Subtests) -> None:
    for name, (fitting, other) in FORMAT_CASES.items():
        with subtests.test(name):
            assert [text for text in fitting if not fits({"format": name}, text)] == []
            assert [text for text in other if fits({"format": name}, text)] == []
            assert fits({"format": name}, 5)


# --- patterns -------------------------------------------------------------------------------------
def with_pattern(pattern: str) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}


def test_pattern_that_has_no_bounds_or_no_meaning_is_refused(subtests: pytest.Subtests) -> None:
    for pattern, reason in (
        (r"^(a)\1$", "look-around"),
        ("^(?=a)b", "look-around"),
        ("a{1,1002}", "too large"),
        (r"(\w{1,50}\s?){1,40}", "too large"),
        ("a{1,600}b{1,600}", "too large"),
        (r"\p{L}{1,100}", "too large"),
        ("(" * 5000, "too large"),
        ("(a", "no regular expression"),
        ("a{", r"write \\{ for a brace"),
    ):
        for schema in (
            with_pattern(pattern),
            {"type": "object", "patternProperties": {pattern: True}},
            {"type": "object", "propertyNames": {"pattern": pattern}},
            {"type": "object", "$defs": {"b": {"pattern": pattern}}},
        ):
            with subtests.test(pattern[:20]), pytest.raises(Invalid, match=reason) as caught:
                check_schema(schema)
            assert caught.value.errors[0].field == "schema"


def test_patterns_are_counted_as_they_are_written() -> None:
    for pattern, more in (
        (r"^\d{4}-\d\d$", 3),
        ("[0-9a-f]{8}-([0-9a-f]{4}-){3}", 20),
        (r"[^\]{9}]{3}", 2),
        ("[]a]{3}[[:alpha:]{9}]{2}", 3),
        ("(?<year>a{2}){3}(?:b)", 5),
        (r"(?i:\p{Letter}\{9)(c{2,})", 1),
        ("[" + "[a]" * 20_000 + "]" + "[" * 99 + "b" + "]" * 99, 0),
    ):
        assert json_schema._repetitions(pattern) == more, pattern


def test_pattern_means_what_json_schema_says(subtests: pytest.Subtests) -> None:
    for pattern, fitting, other in (
        (r"^\d{4}-\d\d$", "2026-11", "2026-1"),
        (r"^[\u4e00-\u9fff]+$", "任务", "task"),
        (r"^C:\\users$", r"C:\users", "C:"),
        (r"b", "abc", "acd"),
        (r"^\d\w$", "3_", "٣_"),
        (r"^\d\w$", "3a", "3é"),
        (r"^\p{Han}$", "中", "中\n"),
        (r"^(?<year>\d+)/(?i:x)$", "7/X", "x/7"),
        (r"^\p{Lu}", "Ä", "ä"),
        (r"^\p{Letter}\p{Script=Han}$", "a任", "1任"),
        (r"^a\sb$", "a\u00a0b", "ab"),
        (r"^\d$", "1", "١"),
        (r"^a$", "a", "a\n"),
        ("^(a+)+$", "aa", "a" * 40 + "!"),
        (r"^\p{L}{1,64}$", "ä" * 64, "ä" * 65),
    ):
        with subtests.test(pattern):
            check_schema(with_pattern(pattern))
            check_params(with_pattern(pattern), {"a": fitting})
            with pytest.raises(Invalid, match="does not match"):
                check_params(with_pattern(pattern), {"a": other})
