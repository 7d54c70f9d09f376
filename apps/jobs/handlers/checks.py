"""Checks of handlers before a worker starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage, Error
from django.db import DatabaseError

from apps.common.json_schema import Checker
from apps.common.readers import fits_address
from apps.jobs.conf import conf
from apps.jobs.handlers import registry
from apps.jobs.models import JobType
from apps.jobs.rules import retention


def check_handlers(**_: Any) -> list[CheckMessage]:
    """Errors for two handlers of one name, and for handlers that cannot be called."""
    return [
        Error(problem, hint='See "Your first handler" in apps/jobs/README.md.', id="jobs.E001")
        for problem in registry.known.problems
    ]


def check_types(*, databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Errors for job types whose handler does not exist."""
    if not databases or "default" not in databases:
        return []
    try:
        unknown = unknown_handlers()
    except DatabaseError:
        # Before the first migration there is no table of types.
        return []
    return [
        Error(
            f"The job type {type_} names the handler {name}, which does not exist.",
            hint=f"Write it with @handler({name!r}) in handlers.py of an app of EXTRA_APPS, or "
            "name another handler, or none for workers over HTTP, in the admin of the job type.",
            id="jobs.E002",
        )
        for type_, name in unknown
    ]


def check_names(*, databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Warnings of job types from before names had to fit into addresses."""
    if not databases or "default" not in databases:
        return []
    try:
        names = list(JobType.objects.order_by("name").values_list("name", flat=True))
    except DatabaseError:
        # Before the first migration there is no table of types.
        return []
    return [
        checks.Warning(
            f"The job type {name} cannot be addressed everywhere because of its name.",
            hint="Make a type of another name, submit to that one, and delete this one in the "
            "admin when it has no jobs any more.",
            id="jobs.W001",
        )
        for name in names
        if not fits_address(name)
    ]


def check_schemas(*, databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Warnings of job types whose schema an earlier version took and this one cannot use."""
    if not databases or "default" not in databases:
        return []
    try:
        types = list(JobType.objects.order_by("name"))
    except DatabaseError:
        # Before the first migration there is no table of types.
        return []
    return [
        checks.Warning(
            f"No context fits the job type {each.name}, so nobody can submit to it. {trouble}",
            hint="Mend the schema in the admin of the job type and save it.",
            id="jobs.W003",
        )
        for each in types
        if each.params_schema and (trouble := Checker(each.params_schema).trouble)
    ]


def check_retention(
    *, databases: Sequence[str] | None = None, **_: Any
) -> list[checks.CheckMessage]:
    """Warnings of job types that are to be kept longer than all jobs, or not even until they are
    in the archive."""
    if not databases or "default" not in databases:
        return []
    try:
        kept = list(JobType.objects.exclude(retention_days=None).order_by("name"))
    except DatabaseError:
        # Before the first migration there is no table of types.
        return []
    limits = {"retention": conf.JOB_RETENTION, "archive_after": conf.JOB_ARCHIVE_AFTER}
    return [
        checks.Warning(
            f"Jobs of type {each.name} cannot be kept for {each.retention_days} days.",
            hint="Change the days in the admin of the job type; they lie between "
            "JOB_ARCHIVE_AFTER and JOB_RETENTION.",
            id="jobs.W002",
        )
        for each in kept
        if not retention.is_possible(each.retention_days or 0, **limits)
    ]


def unknown_handlers() -> list[tuple[str, str]]:
    """The job types whose handler this process does not have, each with its name."""
    types = JobType.objects.exclude(handler="").values_list("name", "handler").order_by("name")
    return [(type_, name) for type_, name in types if registry.find(name) is None]


def problems() -> list[str]:
    """The errors that prevent jobs from running, as text."""
    return [
        *registry.known.problems,
        *(
            f"The job type {type_} names the handler {name!r}, which does not exist here; write it "
            "in handlers.py of an app of EXTRA_APPS, or change the type in the admin."
            for type_, name in unknown_handlers()
        ),
    ]
