"""A definition written in Python:

night = Flow("night", params=SCHEMA)
photos = night.job("list", "list-photos", shop=night.param("shop"))
small = night.jobs("resize", "resize", each=photos["photos"], at_least=0.95)
check = night.task("check", to="gid_qa", quota=3, template="photo-check", after=small)
night.job("publish", "publish", votes=check.results)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apps.flows.rules import shapes
from apps.flows.rules.references import FROM, PARAMS, PATH, RESULTS


class Value:
    """Stands for the params of a run, the result of a step or a part of either."""

    def __init__(self, name: str, path: str = "") -> None:
        self._name, self._path = name, path

    def __getitem__(self, part: str | int) -> Value:
        if isinstance(part, int):
            return Value(self._name, f"{self._path}[{part}]")
        quoted = part if part.replace("_", "").replace("-", "").isalnum() else f'"{part}"'
        return Value(self._name, f"{self._path}.{quoted}" if self._path else quoted)

    def __iter__(self) -> Any:
        raise TypeError("what a step results in is known when it has run; pass it on as it is")

    @property
    def json(self) -> dict[str, str]:
        """The reference."""
        return {FROM: self._name, **({PATH: self._path} if self._path else {})}


class Made(Value):
    """A step that has been added."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    @property
    def results(self) -> Value:
        """Its whole result."""
        return Value(self.name)

    @property
    def pages(self) -> Pages:
        """A handle by which a job reads the results of its jobs."""
        return Pages(self.name)

    def equals(self, value: Any, path: str = "") -> dict[str, Any]:
        """A condition for `only_if`."""
        return {"step": self.name, **({PATH: path} if path else {}), "equals": value}


class Pages(Value):
    """The handle of `Made.pages`."""

    @property
    def json(self) -> dict[str, str]:
        return {RESULTS: self._name}


After = Made | Sequence[Made] | None


class Flow:
    """A flow under construction; `definition` is what `put_flow` and `start` take."""

    def __init__(self, name: str, *, params: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self._params = params
        self._steps: list[dict[str, Any]] = []

    @property
    def definition(self) -> dict[str, Any]:
        """The definition as JSON."""
        return {**({"params": self._params} if self._params else {}), "steps": self._steps}

    def param(self, name: str) -> Value:
        """A param of the run."""
        return Value(PARAMS)[name]

    def job(self, name: str, type: str, *, after: After = None, **given: Any) -> Made:  # noqa: A002
        """One job; what is not a setting of a step is its context."""
        settings, context = _parted(given)
        return self._add(name, shapes.JOB, after, {"type": type, "context": context, **settings})

    def jobs(
        self,
        name: str,
        type: str,  # noqa: A002
        *,
        each: Value | Sequence[Any],
        after: After = None,
        at_least: float | None = None,
        **given: Any,
    ) -> Made:
        """A job for each item; `at_least` 0.95 is 95 percent, 95 is a number of jobs."""
        settings, context = _parted(given)
        said = {"type": type, "each": each, "context": context, **_least(at_least), **settings}
        return self._add(name, shapes.JOBS, after, said)

    def task(
        self,
        name: str,
        *,
        to: str,
        after: After = None,
        at_least: float | None = None,
        **said: Any,
    ) -> Made:
        """A task for a user or a group, with `quota`, `template`, `params` and other fields."""
        return self._add(name, shapes.TASK, after, {"executor": to, **_least(at_least), **said})

    def wait(self, name: str, *, after: After = None, **said: Any) -> Made:
        """Wait so many `seconds`, or until somebody finishes it."""
        return self._add(name, shapes.WAIT, after, said)

    def _add(self, name: str, kind: str, after: After, said: Mapping[str, Any]) -> Made:
        needs = [after] if isinstance(after, Made) else [*(after or ())]
        step = {"name": name, "kind": kind, **{k: _plain(v) for k, v in said.items()}}
        if needs:
            step["needs"] = [each.name for each in needs]
        if "only_if" in step:
            step["if"] = step.pop("only_if")
        if step.get("context") == {}:
            del step["context"]
        self._steps.append(step)
        return Made(name)


_SETTINGS = ("title", "when", "only_if", "optional", "within", "max")


def _parted(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of a step, and the rest."""
    settings = {name: value for name, value in given.items() if name in _SETTINGS}
    return settings, {name: value for name, value in given.items() if name not in settings}


def _least(at_least: float | None) -> dict[str, Any]:
    if at_least is None:
        return {}
    if isinstance(at_least, float):
        return {"at_least": round(100 * at_least), "unit": shapes.PERCENT}
    return {"at_least": at_least}


def _plain(value: Any) -> Any:
    """The value as JSON, with references in place of what stands for something."""
    if isinstance(value, Value):
        return value.json
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return [*map(_plain, value)] if isinstance(value, list | tuple) else value
