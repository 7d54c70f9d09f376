"""A long list with its filters as CSV for programs: names and times as in the API, secrets in texts
masked as in the list."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

from django.contrib import messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.utils.translation import gettext

from apps.common.admin.changelist import BEFORE
from apps.common.admin.columns import chosen_columns
from apps.common.admin.csv_text import (
    MAX_SECONDS,
    CsvFile,
    FileTooLarge,
    download,
    file_name,
    plain_cell,
    rows_of,
)
from apps.common.masking import redact

MAX_EXPORTED = 100_000
_PAGE = 1_000
# How many different texts are kept masked.
_TEXTS = 10_000


def export_view(request: HttpRequest, *, model_admin: Any) -> HttpResponseBase:
    """The rows of a KeysetAdmin's list as a file; back to the list when they are too many."""
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    back = f"{model_admin.changelist_url()}?{request.GET.urlencode()}"
    try:
        text, count = _text(request, model_admin)
    except IncorrectLookupParameters:
        return HttpResponseRedirect(f"{model_admin.changelist_url()}?e=1")
    except FileTooLarge:
        message = gettext(
            "More than %(rows)s rows, or finding them takes longer than %(seconds)d s; narrow the "
            "list first, for example by days."
        )
        facts = {"rows": f"{MAX_EXPORTED:,}", "seconds": MAX_SECONDS}
        model_admin.message_user(request, message % facts, messages.WARNING)
        return HttpResponseRedirect(back)
    model = model_admin.model
    return download(text, name=file_name(model), file=rows_of(model, count))


def _text(request: HttpRequest, model_admin: Any) -> tuple[str, int]:
    """The text of the file and its rows; FileTooLarge when they are more than MAX_EXPORTED, too."""
    columns = _columns(request, model_admin)
    file, count = CsvFile(name for name, _ in columns), 0
    values = [attrgetter(path) for _, path in columns]
    masked = _Masked()
    for rows in _pages(request, model_admin):
        count += len(rows)
        if count > MAX_EXPORTED:
            raise FileTooLarge
        # Filters without an index find rare rows slowly.
        file.check()
        for row in rows:
            file.add([_cell(value(row), masked) for value in values])
    return file.text, count


def _columns(request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
    """The name and the attribute of each column: of the chosen ones, if people have chosen any."""
    picked = chosen_columns(model_admin.list_columns, request.GET)
    names = {name for each in picked for name in each.exported}
    return [each for each in model_admin.export_columns if each[0] in names or not picked]


def _pages(request: HttpRequest, model_admin: Any) -> Iterator[Sequence[Any]]:
    """The list, page by page; these pages are longer than those that people read."""
    listing: Any = copy.copy(model_admin)
    listing.list_per_page, listing.is_exported = _PAGE, True
    asking: Any = copy.copy(request)
    asking.GET = request.GET.copy()
    older: int | None = 0
    while older is not None:
        page = listing.get_changelist_instance(asking)
        yield page.result_list
        older = page.older
        asking.GET[BEFORE] = str(older)


class _Masked(dict[str, str]):
    """Texts as they are shown: most columns have few, and masking takes longest."""

    def __missing__(self, text: str) -> str:
        if len(self) >= _TEXTS:
            self.clear()
        shown = self[text] = plain_cell(redact(text))
        return shown


def _cell(value: object, masked: _Masked) -> str:
    if isinstance(value, str):
        return masked[value]
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    # Most are numbers, or nothing.
    return plain_cell(redact(value) if isinstance(value, dict | list) else value)
