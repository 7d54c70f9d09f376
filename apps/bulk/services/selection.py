"""The rows of a run: those that a filter means, or only those among them that an earlier run has
changed, so that its changes can be undone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from django.db.models import QuerySet

from apps.bulk.models import BulkRow, BulkRun
from apps.bulk.services.targets import MAX_INDEXED, Target
from apps.common.errors import Invalid
from apps.common.filtering import RowFilter, number
from apps.common.json.search import masked
from apps.common.messages import Message as _
from apps.jobs.models import Bounds

# The name of the earlier run beside those of the filter.
CHANGED_BY = "run"


class Part(NamedTuple):
    """One condition of a selection: a parameter, its title, and its values or their labels."""

    name: str
    title: Any
    values: Sequence[Any]


@dataclass(frozen=True)
class Selection:
    """`changed_by` is the number of a run."""

    target: Target
    wanted: RowFilter
    changed_by: int | None = None

    def wire(self) -> dict[str, Any]:
        """The selection as JSON, which `stored` reads."""
        earlier = {} if self.changed_by is None else {CHANGED_BY: str(self.changed_by)}
        return {**self.wanted.wire(), **earlier}

    def parts(self) -> Iterator[Part]:
        """The conditions of the selection."""
        for name, value in self.wanted.given.items():
            each = self.target.filters.base_filters[name]
            labels = {str(choice): label for choice, label in getattr(each, "choices", ())}
            values = value if isinstance(value, tuple) else (value,)
            yield Part(name, each.label, [labels.get(value, value) for value in values])
        if self.changed_by is not None:
            yield Part(CHANGED_BY, _("changed by bulk run"), [self.changed_by])

    def masked(self) -> Selection:
        """The selection as pages show it: the values it searches for may be masked since then."""
        where = tuple(map(masked, self.wanted.where))
        shown = {**self.wanted.given, "where": where} if where else self.wanted.given
        return replace(self, wanted=RowFilter(shown))

    @property
    def is_narrowed(self) -> bool:
        """Whether the selection leaves any row out."""
        return bool(self.wanted.given) or self.changed_by is not None

    def rows(self, bounds: Bounds) -> QuerySet[Any]:
        """The selected rows within the bounds."""
        rows = self.target.rows(self.wanted, bounds)
        if self.changed_by is None:
            return rows
        return rows.filter(pk__in=self._changed().values("target"))

    def keys_if_few(self, bounds: Bounds) -> Sequence[int] | None:
        """The numbers of all rows that can be selected, descending, if an index finds them."""
        if self.changed_by is None:
            return self.target.keys_if_few(self.wanted, bounds)
        if not self._are_few_changed():
            return None
        return sorted(self._changed().values_list("target", flat=True), reverse=True)

    def are_few(self, bounds: Bounds) -> bool:
        """Whether an index finds the selected rows without a list of their numbers."""
        if self.changed_by is None:
            return self.target.are_few(self.wanted, bounds)
        return self._are_few_changed()

    def _changed(self) -> QuerySet[BulkRow]:
        return BulkRow.objects.filter(run=self.changed_by, outcome=BulkRow.Outcome.DONE)

    def _are_few_changed(self) -> bool:
        return self._changed().values("pk")[: MAX_INDEXED + 1].count() <= MAX_INDEXED


def stored(target: Target, data: Mapping[str, Any]) -> Selection:
    """The selection that `wire` wrote."""
    names = {**data}
    earlier = names.pop(CHANGED_BY, None)
    return Selection(target, target.filters.read(names), None if earlier is None else int(earlier))


def changed_by(target: Target, given: object, find: Callable[[int], BulkRun | None]) -> int | None:
    """The number of the earlier run that `given` names, None for none; Invalid unless `find` finds
    that run for the caller, and it is over rows of this kind."""
    if given in (None, ""):
        return None
    try:
        pk = number(given)
    except ValueError as error:
        raise Invalid.field(CHANGED_BY, error.args[0]) from error
    run = find(pk)
    if run is None or run.kind != target.kind:
        text = _("There is no bulk run {number} over such rows.", number=pk)
        raise Invalid.field(CHANGED_BY, text)
    return pk
