"""What people take along as a file, in words: `1,204 jobs as CSV`.

The view that answers with the file says what it is, and the entry about it keeps that as `file`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.apps import apps
from django.utils.translation import gettext, ngettext

from apps.common.admin.csv_text import ROWS_OF
from apps.journal.models import JournalEntry
from apps.reports.services.choice import SOURCES, TABS

EXPORTED = "exported"


def words_of(file: Mapping[str, Any]) -> str:
    """What the file has."""
    if "source" in file:
        source, by = (str(each.get(file[n], file[n])) for n, each in _REPORTS)
        return gettext("the report “{source} · {by}” as CSV").format(source=source, by=by)
    count = f"{file['rows']:,}"
    if "run" in file:
        text = ngettext(
            "{count} row of bulk run {number} as CSV",
            "{count} rows of bulk run {number} as CSV",
            file["rows"],
        )
        return text.format(count=count, number=file["run"])
    text = ngettext("{count} {kind} as CSV", "{count} {kind} as CSV", file["rows"])
    return text.format(count=count, kind=_kind(file[ROWS_OF], file["rows"]))


_REPORTS = (("source", SOURCES), ("by", TABS))


def _kind(label: str, count: int) -> str:
    """What so many rows of the model are called; its label if this release has it no more."""
    try:
        meta = apps.get_model(label)._meta
    except LookupError:
        return label
    return str(meta.verbose_name if count == 1 else meta.verbose_name_plural)


def files_of(entries: Iterable[JournalEntry]) -> dict[int, Mapping[str, Any]]:
    """The files of the exports among the entries, by the number of the entry: one statement if
    there are any."""
    wanted = [entry.pk for entry in entries if entry.event == EXPORTED]
    rows = JournalEntry.objects.filter(pk__in=wanted) if wanted else JournalEntry.objects.none()
    found = {pk: (data or {}).get("file") for pk, data in rows.values_list("pk", "data")}
    return {pk: file for pk, file in found.items() if file}
