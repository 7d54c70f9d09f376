"""Helpers for tests of handlers and of code that submits jobs, with pytest or unittest:

    with inline():                       # what is submitted runs at commit, or at the latest here
        place_order()
    assert [job.context for job in submitted("mail")] == [{"to": "ann@example.com"}]

    assert perform("mail", {"to": "ann@example.com"}).result == {"sent": 1}    # without a database
    assert [each.end for each in run_due("mail")] == ["succeeded"]

Nothing here starts a worker: handlers run in the process and the transaction of the test.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest import mock

from django.db import transaction

from apps.common import clock
from apps.common.errors import refusal
from apps.common.json.schema import Checker
from apps.common.json_rules import check_json
from apps.jobs import wakeup
from apps.jobs.handlers import registry
from apps.jobs.models import Job
from apps.jobs.rules.outcome import HeldJob, Outcome
from apps.jobs.rules.submission import context_faults
from apps.jobs.runner import attempt
from apps.jobs.services import admission, leases
from apps.jobs.services.hold import Holder, hold
from apps.jobs.services.promote import promote_due
from apps.jobs.services.settle import settle
from apps.jobs.services.type_snapshots import forget_type_snapshots, type_snapshots

__all__ = ["Outcome", "inline", "perform", "run_due", "submitted"]

_HOLDER = Holder("test", "test")
# Jobs that submit one another for ever would never come to an end.
MAX_RUNS = 10_000


def submitted(type: str) -> list[Job]:  # noqa: A002 - the word of `submit`
    """The jobs of the type, in the order in which they were submitted."""
    return list(Job.objects.filter(type=type).order_by("id"))


def perform(
    type: str,  # noqa: A002
    context: dict[str, Any] | None = None,
    *,
    key: str = "",
    user_id: str = "",
    stage: str = "",
    attempt_number: int = 1,
    saved: Any = None,
    stopping: bool = False,
    cancelled: bool = False,
) -> Outcome:
    """Run the handler of the type once, without a database of jobs, and return how it ended: `end`
    (`succeeded`, `failed`, `yielded`, …), `result`, `error`, `retry_after`, `checkpoint`, `submit`
    for follow-ups. Invalid for a context that its schema refuses; LookupError without a handler.

    The rest is what a long handler finds in its `ctx`.
    """
    handler = registry.find(type)
    if handler is None:
        known = ", ".join(sorted(registry.names()))
        raise LookupError(f"There is no handler {type!r}; known are: {known}.")
    given = {} if context is None else context
    schema = handler.settings.get("params_schema")
    faults = [*context_faults(given)]
    if schema and not faults:
        faults += Checker(schema).faults(given, field="context")
    if faults:
        raise refusal(faults)
    now = clock.now()
    job = HeldJob(
        id=1,
        type=type,
        key=key,
        user_id=user_id,
        stage=stage,
        attempt=attempt_number,
        max_attempts=handler.settings.get("max_attempts", 3),
        sequence=0,
        progress=None,
        trace_id="",
        context=given,
        checkpoint=saved,
        token="test",  # noqa: S106
        held_at=now,
        lease_until=now + timedelta(hours=1),
        hard_end_at=now + timedelta(hours=1),
        cancel_requested=cancelled,
    )
    kept: list[Any] = []

    def checkpoint(*, data: Any, **_: Any) -> bool:
        check_json(data, field="checkpoint")
        kept[:] = [data]
        return cancelled

    with (
        mock.patch.object(leases, "checkpoint", checkpoint),
        mock.patch.object(leases, "progress", lambda **_: cancelled),
    ):
        outcome = attempt.run(handler, job, lambda: stopping)
    check_json(outcome.result, field="result")
    outcome.checkpoint = kept[0] if kept else outcome.checkpoint
    return outcome


def run_due(type: str | None = None) -> list[Outcome]:  # noqa: A002
    """Run what is due, of the type or of all that have a handler here, one after the other, and
    what these submit, and return how each ended. What is put off or retried later waits."""
    outcomes: list[Outcome] = []
    while len(outcomes) < MAX_RUNS:
        forget_type_snapshots()
        names = [
            name
            for name, type_ in type_snapshots().items()
            if type in (None, name) and registry.find(type_.handler) is not None
        ]
        promote_due()
        if admission.has_work():
            admission.sweep(clock.now())
        held = hold(holder=_HOLDER, types=names, limit=1) if names else []
        if not held:
            return outcomes
        for job in held:
            job.deadline = time.monotonic() + (job.hard_end_at - job.held_at).total_seconds()
            handler = registry.find(type_snapshots()[job.type].handler)
            outcome = attempt.run(handler, job, lambda: False)
            [answer] = settle(outcomes=[outcome])
            if not isinstance(answer, str):
                raise answer
            outcomes.append(outcome)
    raise RuntimeError(f"{MAX_RUNS} jobs ran, and more are due: do they submit one another?")


@contextmanager
def inline() -> Iterator[None]:
    """Run what is submitted within the block as soon as it is committed. In a test that is one
    transaction, as those of TestCase and `pytest.mark.django_db`, that is when the block ends."""
    is_running = False

    def run(*_: object) -> None:
        nonlocal is_running
        if not is_running:
            is_running = True
            try:
                run_due()
            finally:
                is_running = False

    def announce(*_: object, **__: object) -> None:
        transaction.on_commit(run)

    with mock.patch.object(wakeup, "announce", announce):
        yield
        if transaction.get_connection().in_atomic_block:
            run()
