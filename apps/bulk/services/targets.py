"""The targets of bulk runs: each kind of rows with its filter, its verbs, and their services."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from django.db import DatabaseError, models
from django.db.models import QuerySet

from apps.access.rules.clients import Scope
from apps.common.db import is_retryable
from apps.common.errors import FieldError, Invalid, NotFound, PlatformError
from apps.common.filtering import RowFilter
from apps.common.filtersets import RowFilters
from apps.common.messages import Message as _
from apps.common.messages import joined, wire_time
from apps.common.verbs import Undo, Verb
from apps.jobs.models import Bounds
from apps.journal.models import JournalEntry

# The numbers that an index may find at once.
MAX_INDEXED = 100_000


class Target:
    """One kind of rows. `wanted` is what `filters` read."""

    kind: ClassVar[str]
    model: ClassVar[type[models.Model]]
    # The columns by which people know a row.
    label: ClassVar[tuple[str, ...]]
    verbs: ClassVar[Mapping[str, Verb]]
    filters: ClassVar[type[RowFilters]]
    # The permission to see params, contexts and results.
    payload: ClassVar[str]

    def unknown(self, wanted: RowFilter, bounds: Bounds) -> Iterator[FieldError]:
        """The names in the filter that do not exist, so that no row can match."""
        yield from ()

    def does(self, verb: str, params: Mapping[str, Any]) -> Verb | None:
        """The verb of that name, or the undo of the one that params name; None for none."""
        if verb != Undo.name:
            return self.verbs.get(verb)
        of = self.verbs.get(str(params.get("verb")))
        return Undo(of) if of is not None and of.is_undone else None

    def permissions(self, verb: Verb, wanted: RowFilter) -> tuple[str, ...]:
        """The permissions that a person needs for the verb over rows of the filter."""
        needed = verb.permission
        return (needed, self.payload) if wanted.where else (needed,)

    def scopes(self, wanted: RowFilter) -> frozenset[Scope]:
        """The scopes that a key needs: only keys that may read get payloads, secrets masked."""
        return frozenset({Scope.OPERATE, Scope.READ} if wanted.where else {Scope.OPERATE})

    def rows(self, wanted: RowFilter, bounds: Bounds) -> QuerySet[Any]:
        """The rows that the filter means, within the bounds."""
        raise NotImplementedError(f"{type(self).__name__} must define rows()")

    def within(self, rows: QuerySet[Any], bounds: Bounds) -> QuerySet[Any]:
        """The rows within the bounds."""
        raise NotImplementedError(f"{type(self).__name__} must define within()")

    def keys_if_few(self, wanted: RowFilter, bounds: Bounds) -> Sequence[int] | None:
        """The numbers of all rows that can match, descending, if an index finds them."""
        return None

    def are_few(self, wanted: RowFilter, bounds: Bounds) -> bool:
        """Whether an index finds all rows that can match, which then need no list of numbers."""
        return False

    def faults(self, verb: Verb, params: Mapping[str, Any], now: datetime) -> Iterator[FieldError]:
        """The mistakes in the fields of the verb."""
        yield from verb.faults(params, now)

    def labels(self, numbers: Collection[int]) -> dict[int, str]:
        """The labels by which people know these rows, by number; rows that are gone have none."""
        rows = self.model._default_manager.filter(pk__in=numbers)
        return {
            pk: " · ".join(str(each) for each in names if each)
            for pk, *names in rows.values_list("pk", *self.label)
        }

    def locked(self, rows: QuerySet[Any], numbers: Sequence[int]) -> dict[int, Any]:
        """The rows with these numbers, by number, locked in the order of their numbers."""
        found = rows.select_for_update().filter(pk__in=numbers).order_by("pk")
        return {row.pk: row for row in found}

    def act(
        self, row: Any, verb: str, params: Mapping[str, Any], *, actor: str, reason: str
    ) -> None:
        """Change one locked row, in a transaction of its own within that of the round;
        PlatformError when its state does not allow it."""
        raise NotImplementedError(f"{type(self).__name__} must define act()")

    def entries(self, numbers: Collection[int], of: Mapping[str, Any]) -> dict[int, JournalEntry]:
        """The last entry of each row, by its number, that meets `of`, conditions on entries."""
        raise NotImplementedError(f"{type(self).__name__} must define entries()")

    def undo_on(
        self, rows: Sequence[Any], entries: Mapping[int, JournalEntry], *, actor: str, reason: str
    ) -> dict[int, PlatformError]:
        """Give the locked rows back the values from before their entries; returns the error of
        each row that was not changed, by its number."""
        raise NotImplementedError(f"{type(self).__name__} must define undo_on()")

    def act_on(
        self, rows: Sequence[Any], verb: str, params: Mapping[str, Any], *, actor: str, reason: str
    ) -> dict[int, PlatformError | DatabaseError]:
        """Change the locked rows; returns the error of each that was not changed, by its number."""
        refused: dict[int, PlatformError | DatabaseError] = {}
        for row in rows:
            try:
                self.act(row, verb, params, actor=actor, reason=reason)
            except PlatformError as error:
                refused[row.pk] = error
            except DatabaseError as error:
                if is_retryable(error):
                    raise
                refused[row.pk] = error
        return refused


TARGETS: dict[str, Target] = {}


def target_of(kind: str) -> Target:
    """The target of that kind; NotFound for none."""
    if kind not in TARGETS:
        raise NotFound(_("There is no bulk action on {kind}.", kind=kind[:40]))
    return TARGETS[kind]


def check(target: Target, verb: str, params: Mapping[str, Any], now: datetime) -> None:
    """Invalid unless the target has the verb and it takes these fields."""
    does = target.does(verb, params)
    if does is None:
        known = ", ".join(target.verbs)
        text = _("There is no action {verb}; choose one of: {known}.", verb=verb[:40], known=known)
        raise Invalid.field("verb", text)
    errors = [
        FieldError(f"params.{each.field}", each.code, each.message)
        for each in target.faults(does, params, now)
    ]
    if errors:
        raise Invalid(joined(error.message for error in errors), errors=errors)


def run_facts(older: int, count: int, begun: datetime) -> dict[str, Any]:
    """The facts that verbs have of a row besides its columns: the `share` of the rows of the run
    that are older, and the start of the run (`begun`)."""
    return {"share": older / count, "begun": begun}


def params_json(params: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as JSON."""
    return {
        name: wire_time(value) if isinstance(value, datetime) else value
        for name, value in params.items()
    }


def params_of(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that were stored as JSON."""
    return {
        name: datetime.fromisoformat(value) if name.endswith("_at") else value
        for name, value in stored.items()
    }
