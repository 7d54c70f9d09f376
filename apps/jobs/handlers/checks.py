"""Checks of handlers before a worker starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage, Error, Info
from django.db import DatabaseError

from apps.jobs.handlers import registry
from apps.jobs.models import JobType


def check_handlers(**_: Any) -> list[CheckMessage]:
    """Errors for two handlers of one name, and for handlers that cannot be called."""
    return [
        Error(problem, hint='See "Your first handler" in apps/jobs/README.md.', id="jobs.E001")
        for problem in registry.known.problems
    ]


def check_types(*, databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Warnings of job types whose handler does not exist."""
    if not databases or "default" not in databases:
        return []
    try:
        unknown = unknown_handlers()
    except DatabaseError:
        # Before the first migration there is no table of types.
        return []
    return [
        checks.Warning(
            f"The job type {type_} names the handler {name}, which does not exist.",
            hint=f"Write it with @handler({name!r}) in handlers.py of an app of EXTRA_APPS, or "
            "name another handler, or none for workers over HTTP, in the admin of the job type.",
            id="jobs.W004",
        )
        for type_, name in unknown
    ]


def check_settings(*, databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """A note for each type whose settings are not those of the code; the table wins."""
    if not databases or "default" not in databases:
        return []
    try:
        types = list(
            JobType.objects.filter(name__in=[*registry.names(), *registry.known.types]).order_by(
                "name"
            )
        )
    except DatabaseError:
        return []
    return [
        Info(
            f"The job type {type_.name} has other settings than its handler: "
            + ", ".join(
                f"{name} {getattr(type_, name)!r}, in the code {value!r}"
                for name, value in found.items()
            )
            + ".",
            hint='The table wins. "Take those of the code" is on the page of the type.',
            id="jobs.I001",
        )
        for type_ in types
        if (found := registry.differences(type_))
    ]


def unknown_handlers() -> list[tuple[str, str]]:
    """The job types whose handler this process does not have, each with its name. A newer release,
    of the platform or of an app of EXTRA_APPS, may have it, beside which this one goes on."""
    types = JobType.objects.exclude(handler="").values_list("name", "handler").order_by("name")
    return [(type_, name) for type_, name in types if registry.find(name) is None]


def gaps() -> list[str]:
    """What this process will not run, as text."""
    return [
        f"The job type {type_} names the handler {name!r}, which does not exist here, so its jobs "
        "wait for another worker; write it in handlers.py of an app of EXTRA_APPS, or change the "
        "type in the admin."
        for type_, name in unknown_handlers()
    ]
