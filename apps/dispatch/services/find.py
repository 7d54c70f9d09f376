"""The one place to find a dispatch by its number, whichever table it is in."""

from __future__ import annotations

from collections.abc import Iterable

from apps.common.errors import NotFound
from apps.common.messages import Message as _
from apps.dispatch.models import AnyDispatch, ArchivedDispatch, Dispatch


def find_dispatch(number: int, *, bound: Iterable[str] | None = None) -> AnyDispatch | None:
    """The dispatch of that number with its executor; None when unknown or outside the executors in
    `bound`.

    The live table first: a dispatch goes to the archive and never comes back.
    """
    for model in (Dispatch, ArchivedDispatch):
        rows = model._default_manager.select_related("executor")
        if bound is not None:
            rows = rows.within(bound)
        row: AnyDispatch | None = rows.filter(pk=number).first()
        if row is not None:
            return row
    return None


def find_own(number: int, executor_id: int) -> AnyDispatch | None:
    """The dispatch of that number, if it was made to the executor."""
    for model in (Dispatch, ArchivedDispatch):
        mine = model._default_manager.filter(executor=executor_id)
        row: AnyDispatch | None = mine.filter(pk=number).first()
        if row is not None:
            return row
    return None


def existing_dispatch(number: int, *, bound: Iterable[str] | None = None) -> AnyDispatch:
    """The dispatch as `find_dispatch` finds it; NotFound for none."""
    dispatch = find_dispatch(number, bound=bound)
    if dispatch is None:
        raise NotFound(_("There is no dispatch {number}.", number=number))
    return dispatch
