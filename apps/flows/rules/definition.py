"""A definition: the steps of a flow, what each needs, and in which order they can be begun."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from typing import Any

from apps.common.errors import FieldError, PlatformError
from apps.common.json.schema import Checker, check_schema
from apps.common.json_rules import check_json
from apps.common.messages import Message as _
from apps.flows.rules import shapes
from apps.flows.rules.references import FROM, GIVEN, PARAMS, Reference, path_fault, references
from apps.flows.rules.references import faults as reference_faults

_WHOLE = Checker(
    {
        **shapes.DEFINITION,
        "properties": {
            **shapes.DEFINITION["properties"],
            "steps": {**shapes.DEFINITION["properties"]["steps"], "items": {"type": "object"}},
        },
    }
)
_STEPS = {kind: Checker(shape) for kind, shape in shapes.STEPS.items()}


@dataclass(frozen=True, slots=True)
class Step:
    """One step as the definition has it; `needs` are the written ones and those that references
    imply, `names` these and the params if their values are asked for, and `said` is its JSON."""

    name: str
    kind: str
    needs: tuple[str, ...]
    names: frozenset[str]
    said: Mapping[str, Any]

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Step:
        implied = [each.name for each in _references(said, "")]
        if "if" in said:
            implied.append(said["if"]["step"])
        needs = dict.fromkeys(name for name in [*said.get("needs", ()), *implied] if name != PARAMS)
        return cls(said["name"], said["kind"], tuple(needs), frozenset(implied), said)

    @property
    def target(self) -> str:
        """The type of its jobs, or for whom its task is; "" for what waits."""
        return str(self.said.get("type") or self.said.get("executor") or "")

    @property
    def title(self) -> str:
        """Its name for people."""
        return str(self.said.get("title") or self.name)

    @property
    def quota(self) -> int | None:
        """How many people get its task; None for each once."""
        quota: int | None = self.said.get("quota", 1)
        return quota

    def over_at(self, started_at: datetime | None) -> datetime | None:
        """When a step that waits for a time is over; None for others."""
        seconds = self.said.get("seconds")
        return started_at + timedelta(seconds=seconds) if seconds and started_at else None

    @property
    def when(self) -> str:
        """Which ends of its needs it waits for."""
        return str(self.said.get("when", shapes.SUCCESS))

    @property
    def is_optional(self) -> bool:
        """Whether the run goes on, and can succeed, when it has failed."""
        return bool(self.said.get("optional"))

    @property
    def within(self) -> int | None:
        """The seconds that it has from its start on."""
        return self.said.get("within")

    @property
    def most(self) -> int:
        """How many jobs it can make."""
        if self.kind != shapes.JOBS:
            return 1 if self.kind == shapes.JOB else 0
        each = self.said["each"]
        return int(len(each) if isinstance(each, list) else self.said.get("max", shapes.MAX_ITEMS))

    @property
    def keeps_results(self) -> bool:
        """Whether its result has those of its jobs."""
        return self.most <= shapes.MAX_KEPT

    def enough(self, total: int) -> int:
        """How many of all must be good."""
        least = self.said.get("at_least")
        if least is None:
            return total
        if self.said.get("unit") == shapes.PERCENT:
            return -(-total * int(least) // 100)
        return int(least)


class Definition:
    """A definition that can be read; without steps where the stored one cannot be."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self.said = said
        # By name, each after those that it needs.
        self.steps = {step.name: step for step in _in_order([*map(Step.of, said["steps"])])}

    @property
    def params(self) -> Mapping[str, Any] | None:
        """The JSON Schema of the params of a run; None for any."""
        return self.said.get("params")

    @property
    def types(self) -> frozenset[str]:
        """The types of its jobs."""
        return frozenset(step.said["type"] for step in self.steps.values() if "type" in step.said)

    @property
    def executors(self) -> frozenset[str]:
        """Whom its tasks are for."""
        found = (step.said.get("executor") for step in self.steps.values())
        return frozenset(name for name in found if name is not None)

    @property
    def templates(self) -> frozenset[str]:
        """The templates of its tasks."""
        found = (step.said.get("template") for step in self.steps.values())
        return frozenset(name for name in found if name is not None)

    def readers_of(self, name: str) -> set[str]:
        """The types of the jobs that are given a handle of this step."""
        return {
            step.target
            for step in self.steps.values()
            if any(each.is_handle and each.name == name for each in _references(step.said, ""))
        }

    @cached_property
    def levels(self) -> list[list[str]]:
        """The names of steps, those first that need none, then those that need only these, …"""
        level: dict[str, int] = {}
        for step in self.steps.values():
            level[step.name] = 1 + max((level[name] for name in step.needs), default=-1)
        return [
            [name for name, at in level.items() if at == place]
            for place in range(1 + max(level.values(), default=-1))
        ]


def _references(said: Mapping[str, Any], field: str) -> Iterator[Reference]:
    for name in GIVEN:
        yield from references(said.get(name), f"{field}{name}")


def _in_order(steps: Sequence[Step]) -> list[Step]:
    """Order the steps, each after its needs; those in a circle, or that need one, are left out."""
    left = {step.name: step for step in steps}
    found: list[Step] = []
    while ready := [each for each in left.values() if not left.keys() & {*each.needs}]:
        found += ready
        for step in ready:
            del left[step.name]
    return found


def is_readable(said: Mapping[str, Any]) -> bool:
    """Whether all that reads definitions can read this one, whatever the limits were when it was
    saved."""
    return _is_readable(json.dumps(said))


@lru_cache(maxsize=1000)
def _is_readable(text: str) -> bool:
    said = json.loads(text)
    if any(_WHOLE.faults(said, field="")) or any(
        fault for step in said["steps"] for fault in _faults_of_step(step, "")
    ):
        return False
    return not any(_unknown(said["steps"], {step["name"] for step in said["steps"]})) and len(
        Definition(said).steps
    ) == len(said["steps"])


# --- faults ---------------------------------------------------------------------------------------
def faults(said: Any) -> list[FieldError]:
    """All that is wrong with a definition by itself, each with its path: `steps[2].needs`."""
    try:
        check_json(said, field="definition")
    except PlatformError as error:
        return [*error.errors]
    found = [_at_root(each) for each in _WHOLE.faults(said, field="definition")]
    if found:
        return found
    if "params" in said:
        try:
            check_schema(said["params"], field="params")
        except PlatformError as error:
            found += error.errors
    for position, step in enumerate(said["steps"]):
        found += _faults_of_step(step, f"steps[{position}]")
    return found or [*_faults_together(said["steps"])]


def _at_root(fault: FieldError) -> FieldError:
    field = fault.field.removeprefix("definition").removeprefix(".") or "definition"
    return FieldError(field, fault.code, fault.message)


def _faults_of_step(step: Mapping[str, Any], at: str) -> Iterator[FieldError]:
    kind = step.get("kind")
    if kind not in shapes.KINDS:
        known = ", ".join(shapes.KINDS)
        message = _("The kind of the step is missing; choose one of {known}.", known=known)
        if kind is not None:
            text = str(kind)[:40]
            message = _(
                "{kind!r} is no kind of a step; choose one of {known}.", kind=text, known=known
            )
        yield FieldError(f"{at}.kind", "invalid", message)
        return
    known = shapes.STEPS[kind]["properties"]
    found = [
        FieldError(
            at,
            "invalid",
            _(
                "A step of the kind {kind} has no {name!r}; known are: {known}.",
                kind=kind,
                name=name[:40],
                known=", ".join(known),
            ),
        )
        for name in sorted(step.keys() - known.keys())[:1]
    ]
    found += _STEPS[kind].faults({k: v for k, v in step.items() if k in known}, field=at)
    for name in GIVEN:
        found += reference_faults(step.get(name), f"{at}.{name}")
    yield from found
    if found:
        return
    if step["name"] == PARAMS:
        message = _("params are those of the run; give the step another name.")
        yield FieldError(f"{at}.name", "invalid", message)
    if "if" in step and (fault := path_fault(step["if"].get("path", ""))):
        yield FieldError(f"{at}.if.path", "invalid", fault)
    if step.get("unit") == shapes.PERCENT and not 1 <= step.get("at_least", 0) <= 100:
        message = _("In percent at_least is 1 to 100.")
        yield FieldError(f"{at}.at_least", "invalid", message)
    each = step.get("each")
    if isinstance(each, dict) and FROM not in each:
        message = _("each is a list, or a reference to one.")
        yield FieldError(f"{at}.each", "invalid", message)


def _faults_together(said: Sequence[Mapping[str, Any]]) -> Iterator[FieldError]:
    """Find what is wrong between steps, each of which is right by itself."""
    counted = Counter(step["name"] for step in said)
    for position, step in enumerate(said):
        if counted[step["name"]] > 1:
            message = _("Two steps are called {name}; rename one.", name=step["name"])
            yield FieldError(f"steps[{position}].name", "invalid", message)
    unknown = [*_unknown(said, counted.keys())]
    yield from unknown
    if unknown or max(counted.values()) > 1:
        return
    steps = [*map(Step.of, said)]
    ordered = {step.name for step in _in_order(steps)}
    if circle := _circle([step for step in steps if step.name not in ordered]):
        position = [step["name"] for step in said].index(circle[0])
        message = _("It needs itself: {way}.", way=" → ".join(circle))
        yield FieldError(f"steps[{position}].needs", "invalid", message)
    total = sum(step.most for step in steps)
    if total > shapes.MAX_JOBS:
        message = _(
            "Its steps can make {count} jobs, and a run has at most {limit}; declare max of steps "
            "with fewer items.",
            count=total,
            limit=shapes.MAX_JOBS,
        )
        yield FieldError("steps", "invalid", message)


def _unknown(said: Sequence[Mapping[str, Any]], names: Any) -> Iterator[FieldError]:
    """Names of steps that there are not, and handles of what has no pages of results."""
    kinds = {step["name"]: step["kind"] for step in said}
    for position, step in enumerate(said):
        at = f"steps[{position}]"
        named = [(f"{at}.needs[{n}]", name) for n, name in enumerate(step.get("needs", ()))]
        given = [*_references(step, f"{at}.")]
        named += [(each.field, each.name) for each in given if each.name != PARAMS]
        if "if" in step and step["if"]["step"] != PARAMS:
            named.append((f"{at}.if.step", step["if"]["step"]))
        for field, name in named:
            if name not in kinds:
                message = _("There is no step {name!r}.", name=name[:64])
                yield FieldError(field, "invalid", message)
        for each in given:
            if each.is_handle and kinds.get(each.name, shapes.JOBS) != shapes.JOBS:
                message = _("{name} makes no jobs with results to read.", name=each.name)
                yield FieldError(each.field, "invalid", message)


def _circle(left: Sequence[Step]) -> list[str]:
    """The names on one way round, the first again at its end; [] without a circle."""
    by_name = {step.name: step for step in left}
    way: list[str] = []
    name = next(iter(by_name), "")
    while name and name not in way:
        way.append(name)
        name = next(need for need in by_name[name].needs if need in by_name)
    return [*way[way.index(name) :], name][::-1] if name else []
