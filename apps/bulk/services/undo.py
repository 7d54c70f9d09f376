"""The undo of an act of a person, whether on one row or on many: rows that have not changed since
get back the values that they had, the others stay as they are and are listed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.bulk.models import BulkRun
from apps.bulk.services.runs import start
from apps.bulk.services.selection import Selection
from apps.bulk.services.targets import Target, target_of
from apps.common.chunks import chunks
from apps.common.db import transactional
from apps.common.errors import Conflict
from apps.common.filtering import RowFilter
from apps.common.messages import Message as _
from apps.common.verbs import Undo, Verb
from apps.jobs.models import Bounds
from apps.journal.models import JournalEntry

# Rows of one transaction; and those that an act on ticked rows has at most.
BATCH, MAX_ROWS = 100, 1000
REASON = _("Undo")


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


def undo(deed: Deed, *, actor: str, bounds: Bounds) -> Undone:
    """Undo the deed in all its rows within the bounds. Conflict when the verb cannot be undone."""
    if not deed.does.is_undone:
        raise Conflict(deed.does.undo)
    outcome, numbers = Undone(), deed.rows(bounds)
    for part in chunks(numbers, BATCH):
        left = _put_back(deed, part, bounds, actor)
        outcome.left |= left
        outcome.done += len(part) - len(left)
    return outcome


@transactional
def _put_back(deed: Deed, numbers: Sequence[int], bounds: Bounds, actor: str) -> dict[int, str]:
    """Undo the deed in these rows; returns those that stay as they are, with the reason."""
    target = deed.target
    rows = target.within(target.model._default_manager.all(), bounds)
    found = target.locked(rows, numbers)
    refused = target.undo_on(
        [*found.values()], deed.entries(numbers), actor=actor, reason=str(REASON)
    )
    left: dict[int, str] = dict.fromkeys(
        {*numbers} - found.keys(), _("It does not exist any more.")
    )
    return left | {number: error.detail for number, error in refused.items()}


def undo_run(run: BulkRun, *, actor: str, bounds: Bounds) -> BulkRun:
    """Start a run that undoes the changes of this one."""
    return start(
        selection=Selection(target_of(run.kind), RowFilter({}), run.pk),
        verb=Undo.name,
        params={"verb": run.verb},
        at_most=None,
        actor=actor,
        reason=str(REASON),
        bounds=bounds,
    )


def entries_of_run(run: BulkRun, numbers: Collection[int]) -> Mapping[int, JournalEntry]:
    """The entry that the run has written about each of these rows, by number."""
    target = target_of(run.kind)
    of: dict[str, Any] = {"actor": run.actor, "event": target.verbs[run.verb].event}
    of["at__gte"] = run.created_at
    if run.ended_at is not None:
        of["at__lte"] = run.ended_at
    return target.entries(numbers, of)


def may_undo(run: BulkRun, person: Any) -> bool:
    """Whether the run has changed rows, and this person may undo that."""
    does = target_of(run.kind).verbs.get(run.verb)
    return bool(does and does.is_undone and run.done and person.has_perm(does.permission))
