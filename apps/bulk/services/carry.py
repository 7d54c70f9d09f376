"""Carrying out a run, round by round: first its rows are written down, then they are changed.

Each round is one transaction under the lock of the run. So a process that dies, or one that goes
on although its lease is lost, changes no row twice and leaves none out.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import DatabaseError
from django.db.models import QuerySet

from apps.bulk.models import BulkRow, BulkRun
from apps.bulk.rules.settings import ROUND
from apps.bulk.services import starter
from apps.bulk.services.runs import locked
from apps.bulk.services.selection import stored
from apps.bulk.services.steps import Step, step, step_among
from apps.bulk.services.targets import params_of, run_facts, target_of
from apps.bulk.services.undo import entries_of_run
from apps.common import clock
from apps.common.db import transactional
from apps.common.errors import Invalid, NotFound, PlatformError
from apps.common.json.search import why_masked
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.rows import insert_values
from apps.common.shaped import misshapen
from apps.common.texts import begin_of
from apps.common.verbs import Undo

logger = logging.getLogger(__name__)

NO_MATCH = _("does not match the filter any more")
NO_RUN = _("There is no bulk run {run} of this job; start runs by their page.")
AS_ASKED = _("stopped as asked for")
NO_RIGHT = _("{actor} may not do this any more.")
TOO_MANY = _("More than {most} rows match. Nothing was changed; start again with a higher number.")
MASKED_NOW = _(
    "The filter searches for a value that is masked now. The rows that are left stay as they are; "
    "start a new run with another filter."
)
_State, _Outcome = BulkRun.State, BulkRow.Outcome
MAX_WHY = 300
# The outcome of a row, and why it was not done.
_End = tuple[str, str]
_GONE: _End = (_Outcome.SKIPPED, NO_MATCH)


class Carrier:
    """One attempt to carry out a run."""

    def __init__(self, run: BulkRun) -> None:
        for _field, value in misshapen(run):
            # Without its filter it would change all rows.
            raise Invalid(value.why)
        self._number = run.pk
        self._target = target_of(run.kind)
        self._verb, self._params = run.verb, params_of(run.params)
        self._selection = stored(self._target, run.filter)
        self._bound = starter.read(run.bound)
        wanted = self._selection.wanted
        does = self._target.does(run.verb, run.params)
        if does is None:
            raise NotFound(_("There is no action {verb}.", verb=run.verb))
        self._does = does
        self._permissions = self._target.permissions(does, wanted)
        self._scopes = self._target.scopes(wanted)
        self._actor, self._reason = run.actor, run.reason
        self._numbers: Sequence[int] | None = None
        self._is_indexed: bool | None = None
        self._is_paced = False

    def round(self) -> BulkRun:
        """Write down the next rows, or change some; the run as it is then."""
        run = BulkRun.objects.get(pk=self._number)
        if not run.is_under_way:
            return run
        bounds = starter.bounds_now(self._actor, self._permissions, self._scopes)
        if bounds is None:
            return _stop(self._number, Message(NO_RIGHT, actor=self._actor))
        if any(map(why_masked, self._selection.wanted.where)):
            return _stop(self._number, MASKED_NOW)
        rows = self._target.within(self._selection.rows(self._bound), bounds)
        if run.below is not None:
            return _keep(self._number, run.below, self._next(rows, run.below))
        return self._act(rows)

    # --- writing down -----------------------------------------------------------------------------
    def _next(self, rows: QuerySet[Any], below: int) -> Step:
        if self._is_indexed is None:
            self._numbers = self._selection.keys_if_few(self._bound)
            self._is_indexed = self._numbers is not None
        if self._numbers is None:
            return step(rows, below=below)
        return step_among(rows, self._numbers, below=below)

    # --- changing ---------------------------------------------------------------------------------
    @transactional
    def _act(self, rows: QuerySet[Any]) -> BulkRun:
        run = locked(self._number)
        if run.state != _State.ACTING:
            return run
        next_rows = run.rows.filter(outcome=_Outcome.WAITING).order_by("id")
        # No more than the rows of a second: people watch a slow run, and may stop it.
        size = min(ROUND, run.rate)
        waiting = list(next_rows.values_list("pk", "target", "number")[:size])
        if not waiting:
            return _end(run, _State.DONE)
        found = self._target.locked(rows, sorted(target for _pk, target, _number in waiting))
        for _pk, target, number in waiting:
            if target in found:
                # The newest have the lowest numbers.
                older = run.collected - 1 - number
                vars(found[target]).update(run_facts(older, run.collected, run.created_at))
        outcomes = self._outcomes(found)
        before = run.handled
        ends: dict[_End, list[int]] = {}
        for pk, target, _number in waiting:
            ends.setdefault(outcomes.get(target, _GONE), []).append(pk)
        for (outcome, why), numbers in ends.items():
            BulkRow.objects.filter(pk__in=numbers).update(outcome=outcome, why=why)
            setattr(run, outcome, getattr(run, outcome) + len(numbers))
        if not self._is_paced:
            self._is_paced, run.paced_at, run.paced_from = True, clock.now(), before
        run.save(update_fields=["done", "skipped", "failed", "paced_at", "paced_from"])
        return run

    def _outcomes(self, found: Mapping[int, Any]) -> dict[int, _End]:
        """Change the rows; returns the outcome of each, and why it was not done."""
        ends: dict[int, _End] = {}
        now = clock.now()
        for number, row in found.items():
            why = self._does.why_not(row.__dict__, self._params, now)
            if why is not None:
                ends[number] = (_Outcome.SKIPPED, begin_of(why, MAX_WHY))
        left = [row for number, row in sorted(found.items()) if number not in ends]
        refused = self._act_on(left)
        for row in left:
            ends[row.pk] = self._end_of(row.pk, refused.get(row.pk))
        return ends

    def _act_on(self, rows: Sequence[Any]) -> Mapping[int, PlatformError | DatabaseError]:
        by = {"actor": self._actor, "reason": self._reason}
        if not isinstance(self._does, Undo):
            return self._target.act_on(rows, self._verb, self._params, **by)
        earlier = BulkRun.objects.get(pk=self._selection.changed_by or 0)
        entries = entries_of_run(earlier, [row.pk for row in rows])
        return self._target.undo_on(rows, entries, **by)

    def _end_of(self, number: int, error: PlatformError | DatabaseError | None) -> _End:
        if error is None:
            return _Outcome.DONE, ""
        if isinstance(error, PlatformError):
            return _Outcome.SKIPPED, begin_of(error.detail, MAX_WHY)
        logger.error("bulk run %d: row %d failed", self._number, number, exc_info=error)
        return _Outcome.FAILED, _("The database did not take it; try again.")


@transactional
def _keep(number: int, below: int, found: Step) -> BulkRun:
    """Write down the rows of a step, unless another process has taken it."""
    run = locked(number)
    if run.state != _State.COLLECTING or run.below != below:
        return run
    rows = [
        (run.pk, position, target, _Outcome.WAITING, "")
        for position, target in enumerate(found.found, run.collected)
    ]
    if rows:
        insert_values(BulkRow, ("run_id", "number", "target", "outcome", "why"), rows)
    run.collected += len(rows)
    run.below = found.below
    if run.at_most is not None and run.collected > run.at_most:
        run.why = Message(TOO_MANY, most=run.at_most)
        return _end(run, _State.FAILED)
    if run.below is None:
        run.state = _State.ACTING
    run.save(update_fields=["collected", "below", "state"])
    return run


@transactional
def _stop(number: int, why: str) -> BulkRun:
    run = locked(number)
    if run.is_under_way:
        run.state, run.why = _State.STOPPED, why
        run.save(update_fields=["state", "why"])
    return run


def note_stopped(number: int) -> BulkRun:
    """Note that the run has stopped because its job was cancelled."""
    return _stop(number, "")


def _end(run: BulkRun, state: str) -> BulkRun:
    run.state, run.ended_at = state, clock.now()
    run.save(update_fields=["state", "ended_at", "why", "collected", "below"])
    return run
