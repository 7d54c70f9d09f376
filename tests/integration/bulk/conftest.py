"""What the tests of bulk runs stand on."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from apps.bulk.handlers import bulk
from apps.bulk.models import BulkRun
from apps.bulk.services import runs
from apps.bulk.services.selection import stored
from apps.bulk.services.targets import target_of
from apps.jobs.models import Job, bounds_of
from tests.jobs import job_type


class Attempt(SimpleNamespace):
    """The context of the handler; `on_progress` is called after each round."""

    def __init__(self, run: BulkRun, on_progress: Callable[[float], None] | None = None) -> None:
        super().__init__(job_id=run.job, cancelled=False, stopping=False, rounds=0)
        self._on_progress = on_progress

    def progress(self, percent: float) -> None:
        self.rounds += 1
        if self._on_progress is not None:
            self._on_progress(percent)


def carry_out(run: BulkRun, ctx: Attempt | None = None) -> Any:
    """Run the handler in this process."""
    return bulk({"run": run.pk}, ctx or Attempt(run))


def again(run: BulkRun) -> BulkRun:
    return BulkRun.objects.get(pk=run.pk)


def counts(run: BulkRun) -> tuple[str, int, int, int, int]:
    run = again(run)
    return run.state, run.collected, run.done, run.skipped, run.failed


def statuses(numbers: list[int]) -> set[str]:
    """Of these jobs."""
    return set(Job.objects.filter(pk__in=numbers).values_list("status", flat=True))


def page_of(run: BulkRun) -> str:
    """The address of its page."""
    return f"/admin/bulk/bulkrun/{run.pk}/change/"


@pytest.fixture
def page(role_client: Callable[[str], Client]) -> Client:
    """The browser of an operator."""
    return role_client("operator")


@pytest.fixture
def mail(db: None) -> None:
    """Two job types."""
    job_type("mail")
    job_type("web")


@pytest.fixture
def operator(role_user: Callable[[str], User]) -> User:
    return role_user("operator")


@pytest.fixture
def start(operator: User) -> Callable[..., BulkRun]:
    """`start("cancel", {"type": "mail"})`: a run over jobs as the operator starts it."""

    def start(verb: str, wanted: dict[str, Any], **more: Any) -> BulkRun:
        kind = more.pop("kind", "jobs")
        given: dict[str, Any] = {
            "params": {},
            "at_most": None,
            "rate": 1000,
            "reason": "wrong address",
            "actor": f"admin:{operator.username}",
            "bounds": bounds_of(operator),
        }
        selection = stored(target_of(kind), wanted)
        return runs.start(selection=selection, verb=verb, **{**given, **more})

    return start
