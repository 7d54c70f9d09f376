"""Definitions by themselves: what is wrong with them is said all at once, each with its path."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.flows.rules.builder import Flow
from apps.flows.rules.definition import Definition, faults
from apps.flows.rules.ends import of_jobs
from apps.flows.rules.joins import ACTIVE, BLOCKED, FAILED, SUCCEEDED, Stands, Verdict, verdicts
from apps.flows.rules.references import Missing, holds, resolved
from tests.flows import job, jobs, ref, task, wait


def said(*steps: Any, **more: Any) -> dict[str, Any]:
    return {"steps": [*steps], **more}


BAD: list[tuple[str, Any, dict[str, str]]] = [
    ("no object", [], {"definition": "is not of type"}),
    ("no steps", {}, {"steps": "Missing: "}),
    ("an empty list", said(), {"steps": "fewer than 1 items"}),
    ("too many steps", said(*[wait(f"w{n}") for n in range(101)]), {"steps": "more than 100"}),
    ("unknown keys", {**said(wait("w")), "loop": 1}, {"definition": "Unknown: "}),
    ("no kind", said({"name": "w"}), {"steps[0].kind": "is missing; choose one of job, jobs, "}),
    (
        "fields of another kind",
        said({**wait("w"), "type": "mail"}, {"name": "a b", "kind": "job"}),
        {
            "steps[0]": "A step of the kind wait has no 'type'; known are: kind, name,",
            "steps[1].name": "not match",
            "steps[1].type": "Missing",
        },
    ),
    ("a name that references take", said(wait("params")), {"steps[0].name": "another name"}),
    ("twice the same", said(wait("w"), wait("w")), {"steps[0].name": "Two", "steps[1].name": ""}),
    (
        "unknown names",
        said(job("a", needs=["x"], context={"b": [ref("y")]}), job("b", **{"if": {"step": "z", "equals": 1}})),  # noqa: E501
        {"steps[0].needs[0]": "'x'", "steps[0].context.b[0]": "'y'", "steps[1].if.step": "'z'"},
    ),
    ("itself", said(job("a", needs=["a"])), {"steps[0].needs": "a → a"}),
    (
        "a circle, and what comes after it",
        said(job("z", needs=["c"]), job("a", context={"c": ref("c")}), job("b", needs=["a"]), job("c", needs=["b"])),  # noqa: E501
        {"steps[3].needs": "c → a → b → c"},
    ),
    ("a reference with more", said(job("a", context={"$from": "b", "x": 1})), {"steps[0].context": "A key with $"}),  # noqa: E501
    ("no path", said(wait("w"), job("a", context={"x": ref("w", "a..b")})), {"steps[1].context.x.path": "is no path"}),  # noqa: E501
    ("a handle of no jobs", said(wait("w"), job("a", context={"x": {"$results": "w"}})), {"steps[1].context.x": "makes no jobs"}),  # noqa: E501
    ("each is no list", said(jobs("a", {"x": 1})), {"steps[0].each": "a list, or a reference"}),
    ("10,001 items", said(jobs("a", [1] * 10_001)), {"steps[0].each": "more than 10000 items"}),
    ("more than 10,000", said(wait("w"), jobs("a", ref("w"), max=10_001)), {"steps[1].max": "greater than 10000"}),  # noqa: E501
    (
        "100,001 jobs",
        said(wait("w"), *[jobs(f"j{n}", ref("w")) for n in range(11)]),
        {"steps": "can make 110000 jobs"},
    ),
    ("101 percent", said(jobs("a", [1], at_least=101, unit="percent")), {"steps[0].at_least": "1 to 100"}),  # noqa: E501
    ("0 percent", said(jobs("a", [1], at_least=0, unit="kg")), {"steps[0].at_least": "less than 1", "steps[0].unit": "not one of"}),  # noqa: E501
    ("more in a condition", said(wait("w"), job("a", **{"if": {"step": "w", "equals": 1, "not": 1}})), {"steps[1].if": "Unknown"}),  # noqa: E501
    ("half a condition", said(wait("w"), job("a", **{"if": {"step": "w"}})), {"steps[1].if.equals": "Missing"}),  # noqa: E501
    ("another word", said(wait("w", when="never", optional=1)), {"steps[0].when": "not one of", "steps[0].optional": "boolean"}),  # noqa: E501
    ("too short", said(wait("w", within=0)), {"steps[0].within": "less than 1"}),
    ("a long name", said(wait("w" * 65)), {"steps[0].name": "not match"}),
    ("none at once", said(wait("w"), jobs("a", ref("w"), max=0)), {"steps[1].max": "less than 1"}),
    ("no schema", said(wait("w"), params={"type": "list"}), {"params": '"type" is "object"'}),
    ("a quota of 0", said(task("t", quota=0)), {"steps[0].quota": "less than 1"}),
    ("too long", said(wait("w", within=10**9)), {"steps[0].within": "greater than"}),
    ("too deep", said(job("a", context=reduce(lambda x, _: {"x": x}, range(30), {}))), {"definition": "levels"}),  # noqa: E501
]  # fmt: skip


def test_what_is_wrong_is_said_with_its_path(subtests: pytest.Subtests) -> None:
    for name, definition, wanted in BAD:
        with subtests.test(name):
            found = {each.field: str(each.message) for each in faults(definition)}
            assert {*found} == {*wanted}
            for field, part in wanted.items():
                assert part in found[field]


def test_order_levels_and_what_references_imply() -> None:
    definition = said(
        job("publish", context={"votes": ref("check", "[0].ok")}),
        jobs("resize", ref("list", "photos")),
        task("check", needs=["resize"]),
        job("list", context={"shop": ref("params", "shop")}),
        job("alarm", **{"if": {"step": "list", "equals": None}}),
    )

    assert faults(definition) == [] == faults(said(jobs("a", [1] * 10_000)))
    read = Definition(definition)
    assert read.levels == [["list"], ["resize", "alarm"], ["check"], ["publish"]]
    assert read.types == {"mail"} and read.executors == {"gid_sales"}


def test_references() -> None:
    results = {"params": {"shop": {"rows": [{"id": 7}]}}, "gone": None}
    handles = {"many": {"count": 2}}
    given_ = {
        "a": ref("params", "shop.rows[0].id"),
        "b": [ref("gone", "x.y"), {"$results": "many"}],
    }
    assert resolved(given_, results, handles) == {"a": 7, "b": [None, {"count": 2}]}
    for path in ("shop.rows[1]", "shop.row", "shop[0]", "shop.rows.id"):
        with pytest.raises(Missing):
            resolved(ref("params", path), results, {})
    cases = [("shop.rows[0].id", 7, True), ("shop.rows[0].id", True, False), ("no", None, False)]
    for path, wanted, is_so in cases:
        assert holds({"step": "params", "path": path, "equals": wanted}, results) is is_so
    # In JSON 1 is not true.
    assert not holds({"step": "params", "equals": True}, {"params": 1})


@given(st.data())
def test_runs_of_any_graph_come_to_an_end(data: st.DataObject) -> None:
    """Whatever fails: as long as something is active or begins, each look brings the run on."""
    count = data.draw(st.integers(1, 7))
    names = [f"s{n}" for n in range(count)]
    steps = [
        wait(
            name,
            needs=data.draw(st.lists(st.sampled_from(names[:n]), unique=True)) if n else [],
            when=data.draw(st.sampled_from(["success", "failure", "always"])),
            optional=data.draw(st.booleans()),
        )
        for n, name in enumerate(names)
    ]
    definition = Definition(said(*steps))
    stands = {name: Stands(BLOCKED) for name in names}
    for _look in range(2 * count + 1):
        found = verdicts(definition, stands)
        for name, verdict in found.items():
            if verdict is Verdict.START:
                assert all(stands[need].state != ACTIVE for need in definition.steps[name].needs)
                stands[name] = Stands(data.draw(st.sampled_from([SUCCEEDED, FAILED])))
            elif verdict is Verdict.SKIP:
                stands[name] = Stands("skipped")
    assert {*verdicts(definition, stands).values()} <= {Verdict.NEVER}


def test_results_that_are_too_large_are_left_out() -> None:
    [step] = Definition(said(jobs("a", [1, 2]))).steps.values()
    end = of_jobs(step, {"succeeded": 2}, 2, ["x" * 200_000] * 2)
    assert (end.state, end.result["count"], "results" in end.result) == ("succeeded", 2, False)
    assert end.memo == "Its results fill more than 256 KB, so it keeps none."


def test_builder_writes_the_definition_of_the_readme() -> None:
    schema = {"type": "object", "required": ["shop"]}
    night = Flow("night", params=schema)
    photos = night.job("list", "list-photos", shop=night.param("shop"))
    small = night.jobs("resize", "resize", each=photos["photos"], at_least=0.95)
    check = night.task("check", to="gid_qa", quota=3, template="photo-check", after=small)
    night.job("publish", "publish", votes=check.results, all=small.pages, first=photos["by"]["a b"])
    night.job("alarm", "mail", after=[small, check], when="failure", within=60, title="Call")
    night.wait("gate", seconds=5, only_if=photos.equals(True, "public"))

    assert night.definition == said(
        {"name": "list", "kind": "job", "type": "list-photos", "context": {"shop": ref("params", "shop")}},  # noqa: E501
        {"name": "resize", "kind": "jobs", "type": "resize", "each": ref("list", "photos"), "at_least": 95, "unit": "percent"},  # noqa: E501
        {"name": "check", "kind": "task", "executor": "gid_qa", "quota": 3, "template": "photo-check", "needs": ["resize"]},  # noqa: E501
        {"name": "publish", "kind": "job", "type": "publish", "context": {"votes": ref("check"), "all": {"$results": "resize"}, "first": ref("list", 'by."a b"')}},  # noqa: E501
        {"name": "alarm", "kind": "job", "type": "mail", "when": "failure", "within": 60, "title": "Call", "needs": ["resize", "check"]},  # noqa: E501
        {"name": "gate", "kind": "wait", "seconds": 5, "if": {"step": "list", "path": "public", "equals": True}},  # noqa: E501
        params=schema,
    )  # fmt: skip
    assert faults(night.definition) == []
    with pytest.raises(TypeError, match="pass it on as it is"):
        list(photos)
