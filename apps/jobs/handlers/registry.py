"""The handlers of this process by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.conf import settings

from apps.common.errors import FieldError
from apps.common.json_rules import is_same
from apps.jobs.models import JobType
from apps.jobs.rules import type_settings
from apps.jobs.rules.outcome import HeldJob

F = TypeVar("F", bound=Callable[..., Any])

_OWN = ("id", "name", "handler", "version", "created_at", "created_by", "updated_at", "updated_by")


@dataclass(frozen=True, slots=True)
class Handler:
    """A function under its name; `is_long` ones take a Context too. `settings` are those of the
    job type that is made for it; none is for one `of_many`, whose types `Registry.types` has.
    `about` says on a page what it does. Jobs of a type that is `for_code` are submitted by code
    alone, which chooses what they do; those of the types in `opened` by everybody. What
    those of one that `reaches_further` do is not only of their type, so nobody with limits submits
    them. The type of one `when_needed` is made by whoever submits its first job."""

    name: str
    function: Callable[..., Any]
    is_long: bool
    settings: Mapping[str, Any] = field(default_factory=dict)
    for_code: bool = False
    about: str = ""
    when_needed: bool = False
    of_many: bool = False
    opened: frozenset[str] = frozenset()
    reaches_further: bool = False

    @property
    def location(self) -> str:
        """The module and name of the function."""
        return path_of(self.function)

    @property
    def is_system(self) -> bool:
        """Whether the platform itself submits its jobs, and nobody else does."""
        module = self.function.__module__
        return any(module == f"{app}.handlers" for app in settings.HANDLER_APPS)


# Given the attempt, a generator that yields once: while the handler runs.
Hook = Callable[[HeldJob], Generator[None, None, None]]
H = TypeVar("H", bound=Hook)


@dataclass(slots=True)
class Registry:
    """The handlers of one process, and their errors."""

    handlers: dict[str, Handler] = field(default_factory=dict)
    # The types of handlers of many, with the settings that each begins with, its handler too.
    types: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    # Run around each attempt, the first one outermost.
    hooks: list[Hook] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, handler: Handler, problem: str = "") -> None:
        other = self.handlers.get(handler.name)
        if other is not None and other.location != handler.location:
            problem = (
                f"Two handlers are named {handler.name!r}: {other.location} and {handler.location}"
                "; rename one."
            )
        if problem:
            self.problems.append(problem)
        else:
            self.handlers[handler.name] = handler


known = Registry()


def handler(
    name: str,
    *,
    for_code: bool = False,
    about: str = "",
    when_needed: bool = False,
    of_many: bool = False,
    opened: Collection[str] = (),
    reaches_further: bool = False,
    **type_settings: Any,
) -> Callable[[F], F]:
    """Run the jobs of type `name` by the function: `def mail(context)` or `def mail(context, ctx)`.

    The settings (`lane`, `max_attempts`, `title`, `params_schema`, …) are those that its job type
    begins with; later an operator may change them. What is `for_code` cannot be submitted by keys
    and on pages, but for the types in `opened`; no type is made for one `of_many`. `about`, a line
    for people, is by default the first one of the docstring.
    """

    def register(function: F) -> F:
        count = _argument_count(function)
        line = about or (inspect.getdoc(function) or "").partition("\n")[0]
        entry = Handler(
            name,
            function,
            count == 2,
            type_settings,
            for_code,
            line,
            reaches_further=reaches_further,
            when_needed=when_needed,
            of_many=of_many,
            opened=frozenset(opened),
        )
        known.add(entry, _problem(entry, count))
        return function

    return register


def around(hook: H) -> H:
    """Run the generator around each attempt in-house: what is before its `yield`, the handler, the
    rest. What the handler raises is raised by the `yield`, too, and ends the attempt in any case.

        @around
        def tracing(job):
            with tracer.start_as_current_span(job.type):
                yield

    What a hook itself raises fails the attempt, with the name of the hook.
    """
    if not inspect.isgeneratorfunction(hook):
        known.problems.append(f"{path_of(hook)} is no generator; let it yield once.")
    elif hook not in known.hooks:
        known.hooks.append(hook)
    return hook


def find(name: str) -> Handler | None:
    """The handler of that name; None when this process has none."""
    return known.handlers.get(name)


def names() -> Collection[str]:
    """The names of all handlers."""
    return known.handlers.keys()


def differences(job_type: JobType) -> dict[str, Any]:
    """The settings that the code of its handler gives the type of that name and that it does not
    have, each as the code has it."""
    entry = find(job_type.name)
    of_code = known.types.get(job_type.name, {})
    if entry is not None and job_type.handler == entry.name:
        of_code = entry.settings
    return {
        name: value
        for name, value in sorted(of_code.items())
        if not is_same(getattr(job_type, name), value)
    }


def is_system(job_type: str) -> bool:
    """Whether only the platform itself submits jobs of this type."""
    entry = find(job_type)
    return entry is not None and entry.is_system


def system_types() -> frozenset[str]:
    """The job types that only the platform itself submits jobs of."""
    return frozenset(filter(is_system, names()))


def is_closed(job_type: str, handler: str = "") -> bool:
    """Whether only code submits jobs of this type, which has the handler: that of the platform, or
    tasks of Django."""
    named = [each for name in (job_type, handler) if (each := find(name))]
    return any(each.is_system or (each.for_code and job_type not in each.opened) for each in named)


def reaches_further(name: str) -> bool:
    """Whether what jobs of this handler do is not only of their type."""
    entry = find(name)
    return entry is not None and entry.reaches_further


def further() -> list[str]:
    """The handlers that reach further than the types of their jobs say."""
    return [name for name, each in known.handlers.items() if each.reaches_further]


def closing() -> dict[str, frozenset[str]]:
    """The handlers whose types are closed, each with those of them that are open."""
    return {
        name: each.opened
        for name, each in known.handlers.items()
        if each.is_system or each.for_code
    }


def path_of(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _argument_count(function: Callable[..., Any]) -> int:
    """The number of arguments to call it with: 1 or 2; 0 if it takes neither.

    A second argument with a default is passed only if its name is ctx.
    """
    parameters = list(inspect.signature(function).parameters.values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in positional if p.default is p.empty]
    by_name = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if by_name or not positional or len(needed) > 2:
        return 0
    return 2 if len(needed) == 2 or (len(positional) > 1 and positional[1].name == "ctx") else 1


def _problem(entry: Handler, arguments: int) -> str:
    if not type_settings.is_name(entry.name):
        return (
            f"{entry.location} is registered as {entry.name!r}; a name has 1 to "
            f"{type_settings.MAX_NAME} letters, digits and _ . : @ + -, without slashes, and not "
            "only dots. Rename it, and name it anew in its job type."
        )
    if not arguments:
        return f"{entry.location} must take (context) or (context, ctx)."
    if inspect.iscoroutinefunction(entry.function):
        return f"{entry.location} is async; handlers are plain functions."
    settings = {each.name for each in JobType._meta.concrete_fields} - set(_OWN)
    unknown = sorted(set(entry.settings) - settings)
    if unknown:
        return (
            f"{entry.location} names settings that a job type does not have: {', '.join(unknown)}. "
            f"It has {', '.join(sorted(settings))}."
        )
    wrong = [fault.named for fault in _faults(entry.settings)]
    if wrong:
        return f"{entry.location} names settings that no job type can have. {' '.join(wrong[:3])}"
    return ""


def _faults(given: Mapping[str, Any]) -> Iterator[FieldError]:
    """The faults of settings beside which all others have their default values."""
    usual = JobType()
    settings = {name: getattr(usual, name) for name in type_settings.SETTINGS}
    return type_settings.faults({**settings, **given}, changed=frozenset(given))
