"""What entries are about: the admin page of each subject, and the name that people know it by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.http import HttpRequest
from django.utils.text import capfirst

from apps.common.admin.base import PlatformModelAdmin
from apps.common.admin.display import shown_text
from apps.common.admin.two_tables import TwoTablesAdmin
from apps.journal.admin import words
from apps.journal.models import JournalEntry

MAX_NAME = 80
# The names of subjects by their page ("dispatch_dispatch") and number.
Names = Mapping[tuple[str, int], str]


def page_of(entry: JournalEntry) -> str:
    """The URL name of the admin page of the entry's subject ("dispatch_dispatch"), "" where it has
    none."""
    if not entry.subject_id:
        return ""
    found = (page(entry) for page in words.PAGES.get(entry.source, ()))
    return next(filter(None, found), "")


def names_of(request: HttpRequest, entries: Iterable[JournalEntry]) -> Names:
    """The names of the subjects that have pages which this person may see: a statement for each
    kind."""
    wanted: dict[str, set[int]] = {}
    for entry in entries:
        if page := page_of(entry):
            wanted.setdefault(page, set()).add(entry.subject_id)
    return {
        (page, pk): name
        for page, numbers in wanted.items()
        for pk, name in _labels(request, page, numbers)
    }


def leads_on(page: str) -> bool:
    """Whether the page of a row that is older by now leads on to it."""
    return page != "" and isinstance(_admin_of(page), TwoTablesAdmin)


def unnamed(entry: JournalEntry) -> str:
    """The subject of an entry that is gone, or not for this person: `Channel 1` for `channel:1`."""
    name, number = entry.type_or_task, entry.subject_id
    page = page_of(entry)
    if not page or name.rpartition(":")[2] != str(number):
        return name
    return f"{capfirst(model_of(page)._meta.verbose_name)} {number}"


def _labels(request: HttpRequest, page: str, numbers: set[int]) -> Iterator[tuple[int, str]]:
    model_admin = _admin_of(page)
    if not isinstance(model_admin, PlatformModelAdmin):
        return
    if not model_admin.has_view_or_change_permission(request):
        return
    rows = model_admin.get_queryset(request).filter(pk__in=numbers)
    for row in rows.defer(*getattr(model_admin, "list_defer", ())):
        # Jobs have no title; their type and key are what people know them by.
        type_and_key = (getattr(row, "type", ""), getattr(row, "key", ""))
        keyed = " · ".join(type_and_key) if all(type_and_key) else ""
        title = getattr(row, "title", "") if model_admin.is_called_by_title else ""
        name = title or keyed or model_admin.row_label(row)
        yield row.pk, shown_text(str(name), limit=MAX_NAME)


def _admin_of(page: str) -> Any:
    return admin.site._registry.get(model_of(page))


def model_of(page: str) -> Any:
    """The model whose rows have the page of that URL name."""
    app, model = page.split("_", 1)
    return apps.get_model(app, model)
