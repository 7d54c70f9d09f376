"""The undo of an act of a person, whether on one row or on many: rows that have not changed since
get back the values that they had, the others stay as they are and are listed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.bulk.models import BulkRun
from apps.bulk.services.runs import start
from apps.bulk.services.selection import Selection
from apps.bulk.services.targets import TARGETS, Target, target_of
from apps.common.chunks import chunks
from apps.common.db import transactional
from apps.common.errors import Conflict
from apps.common.filtering import RowFilter
from apps.common.messages import Message as _
from apps.common.verbs import Undo, Verb
from apps.dispatch.rules.plan import ONCE, ROTATE
from apps.jobs.models import Bounds
from apps.journal.models import JournalEntry, Source
from apps.journal.services.undo import is_offered, is_undoable, late

# Rows of one transaction; and those that an act on ticked rows has at most.
BATCH, MAX_ROWS = 100, 1000
REASON = _("Undo")
_KINDS = {ONCE: "once-tasks", ROTATE: "rotate-tasks"}


@dataclass(frozen=True)
class Deed:
    """An act of an actor on rows of a kind; its entries have ids from `first` to `last`."""

    kind: str
    verb: str
    actor: str
    first: int
    last: int

    @property
    def target(self) -> Target:
        return target_of(self.kind)

    @property
    def does(self) -> Verb:
        return self.target.verbs[self.verb]

    @property
    def _meant(self) -> dict[str, Any]:
        """The conditions on entries of the deed."""
        ids = (self.first, self.last)
        return {"person": self.actor, "event": self.does.event, "pk__range": ids}

    @property
    def is_late(self) -> bool:
        """Whether the time to undo it is over."""
        newest = JournalEntry.objects.filter(**self._meant).order_by("-pk")
        at = newest.values_list("at", flat=True).first()
        return at is not None and not is_offered(at)

    def entries(self, numbers: Collection[int]) -> dict[int, JournalEntry]:
        """The entries of the deed about these rows, by number."""
        return self.target.entries(numbers, self._meant)

    def rows(self, bounds: Bounds) -> list[int]:
        """The numbers of the rows of the deed within the bounds, at most MAX_ROWS."""
        found = JournalEntry.objects.filter(**self._meant).order_by("-pk")
        numbers = {*found.values_list("subject_id", flat=True)[:MAX_ROWS]}
        rows = self.target.within(self.target.model._default_manager.all(), bounds)
        return sorted(rows.filter(pk__in=self.entries(numbers)).values_list("pk", flat=True))


@dataclass
class Undone:
    """The number of rows that are `done`; those `left` as they were, by number, with the reason."""

    done: int = 0
    left: dict[int, str] = field(default_factory=dict)


def deed_of(newest: JournalEntry, first: int) -> Deed | None:
    """The deed whose entries are the newest and those like it from `first` on; None if no verb is
    undone that writes such entries."""
    task, _colon, number = newest.type_or_task.partition(":")
    kind = "jobs" if newest.source == Source.JOB else ""
    if newest.source == Source.PLAN and number == str(newest.subject_id):
        kind = _KINDS.get(task, "")
    for verb in TARGETS[kind].verbs.values() if kind in TARGETS else ():
        if verb.event == newest.event and verb.is_undone:
            return Deed(kind, verb.name, newest.actor, first, newest.pk)
    return None


def deed_of_key(number: int, actor: str, bounds: Bounds) -> Deed | None:
    """The act on one row that the entry of this number reports; None unless it was this API key,
    and the row is within its bounds. Conflict when the time to undo it is over."""
    entry = JournalEntry.objects.filter(pk=number, person=actor).first()
    deed = deed_of(entry, entry.pk) if entry is not None and is_undoable(entry) else None
    # A key that is bound to job types reaches no tasks.
    is_beyond = deed is not None and deed.kind != "jobs" and bounds.types is not None
    if entry is None or deed is None or is_beyond or not deed.rows(bounds):
        return None
    if deed.is_late:
        raise Conflict(late())
    return deed


def undo(deed: Deed, *, actor: str, bounds: Bounds, reason: str = "") -> Undone:
    """Undo the deed in all its rows within the bounds. Conflict when the verb cannot be undone, or
    the time to do so is over."""
    if not deed.does.is_undone:
        raise Conflict(deed.does.undo)
    if deed.is_late:
        raise Conflict(late())
    outcome, numbers = Undone(), deed.rows(bounds)
    for part in chunks(numbers, BATCH):
        left = _put_back(deed, part, bounds, actor, reason or str(REASON))
        outcome.left |= left
        outcome.done += len(part) - len(left)
    return outcome


@transactional
def _put_back(
    deed: Deed, numbers: Sequence[int], bounds: Bounds, actor: str, reason: str
) -> dict[int, str]:
    """Undo the deed in these rows; returns those that stay as they are, with the reason."""
    target = deed.target
    rows = target.within(target.model._default_manager.all(), bounds)
    found = target.locked(rows, numbers)
    entries = deed.entries(numbers)
    refused = target.undo_on([*found.values()], entries, actor=actor, reason=reason)
    left: dict[int, str] = dict.fromkeys(
        {*numbers} - found.keys(), _("It does not exist any more.")
    )
    return left | {number: error.detail for number, error in refused.items()}


def undo_run(run: BulkRun, *, actor: str, bounds: Bounds, reason: str = "") -> BulkRun:
    """Start a run that undoes the changes of this one; Conflict when that cannot be."""
    if (why := why_not(run)) is not None:
        raise Conflict(why)
    return start(
        selection=Selection(target_of(run.kind), RowFilter({}), run.pk),
        verb=Undo.name,
        params={"verb": run.verb},
        at_most=None,
        actor=actor,
        reason=reason or str(REASON),
        bounds=bounds,
    )


def why_not(run: BulkRun) -> str | None:
    """Why the run cannot be undone as it is; None if it can."""
    does = target_of(run.kind).does(run.verb, run.params)
    if does is None or not does.is_undone:
        return does.undo if does is not None else _("There is no action {verb}.", verb=run.verb)
    if run.is_under_way:
        return _("Bulk run {number} is under way or still stopping; wait a moment.", number=run.pk)
    if not run.done:
        return _("There is nothing to undo.")
    return None if run.ended_at is not None and is_offered(run.ended_at) else late()


def entries_of_run(run: BulkRun, numbers: Collection[int]) -> Mapping[int, JournalEntry]:
    """The entry that the run has written about each of these rows, by number."""
    target = target_of(run.kind)
    of: dict[str, Any] = {"actor": run.actor, "event": target.verbs[run.verb].event}
    of["at__gte"] = run.created_at
    if run.ended_at is not None:
        of["at__lte"] = run.ended_at
    return target.entries(numbers, of)


def may_undo(run: BulkRun, person: Any) -> bool:
    """Whether this person may do what undoes the run."""
    does = target_of(run.kind).does(run.verb, run.params)
    return does is not None and person.has_perm(does.permission)
