"""CSV import by services, with a trial run first, and export of a filtered list."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django.contrib import messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import DatabaseError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common import sent_forms
from apps.common.admin.actions import CustomUrls
from apps.common.admin.csv_text import (
    MAX_SECONDS,
    CsvFile,
    CsvForm,
    FileTooLarge,
    download,
    file_name,
    plain_cell,
    rows_of,
)
from apps.common.admin.display import shown_text, translate
from apps.common.chunks import chunks
from apps.common.db import is_retryable, transactional
from apps.common.errors import PlatformError

logger = logging.getLogger(__name__)

MAX_EXPORTED = 10_000
MAX_EXPORTED_BYTES = 32 * 1_048_576
CHUNK = 500
MAX_ERRORS = 30
MAX_PREVIEWED = 100
MAX_NAME = 120


NEW, CHANGED, UNCHANGED = "new", "changed", "unchanged"
OUTCOMES = {NEW: _("will be new"), CHANGED: _("will be changed")}


@dataclass(frozen=True, kw_only=True)
class ImportedRow:
    """The outcome of one line of the file; `note` describes a change."""

    line: int
    name: str
    outcome: str = UNCHANGED
    note: str = ""
    errors: Sequence[str] = ()


class CsvResource:
    """Imports the rows of a file through services, all or none.

    A subclass checks in `check` what a row of the file asks for, writes in `save` what all of them
    do, and returns in `cells` what each of its `columns` shows of a row of the model. A check locks
    nothing: it takes seconds for a long file, and people at work would wait.
    """

    columns: tuple[str, ...] = ()
    # The first filled one of these columns names the row in lists.
    row_names: ClassVar[tuple[str, ...]] = ("name",)

    # --- defined by a subclass --------------------------------------------------------------------
    def prepare(self, rows: Sequence[Mapping[str, str]]) -> None:
        """Read what several rows need."""

    def check(self, row: Mapping[str, str]) -> tuple[str, str]:
        """Check the row and note what it asks for: NEW, CHANGED or UNCHANGED, and a note. Writes
        nothing."""
        raise NotImplementedError(f"{type(self).__name__} must define check()")

    def save(self) -> None:
        """Write what the rows ask for, within a transaction that may be repeated."""
        raise NotImplementedError(f"{type(self).__name__} must define save()")

    def cells(self, instance: Any) -> dict[str, Any]:
        """The values of the columns."""
        raise NotImplementedError(f"{type(self).__name__} must define cells()")

    # --- in ---------------------------------------------------------------------------------------
    def import_rows(
        self, rows: Sequence[Mapping[str, str]], *, is_trial: bool
    ) -> list[ImportedRow]:
        """Check the rows, and write them unless it is a trial or there is an error in any."""
        self.prepare(rows)
        imported = [self._checked(line, row) for line, row in enumerate(rows, start=2)]
        if not is_trial and not any(row.errors for row in imported):
            errors = _errors_of(transactional(self.save))
            imported += [ImportedRow(line=1, name="", errors=errors)] if errors else []
        return imported

    def _checked(self, line: int, row: Mapping[str, str]) -> ImportedRow:
        outcome, note = UNCHANGED, ""

        def check() -> None:
            nonlocal outcome, note
            outcome, note = self.check(row)

        errors = _errors_of(check)
        name = next((row[name] for name in self.row_names if row.get(name)), "")
        return ImportedRow(
            line=line,
            name=shown_text(name, limit=MAX_NAME),
            outcome=outcome,
            note=note,
            errors=errors,
        )

    # --- out --------------------------------------------------------------------------------------
    def headers(self) -> Sequence[str]:
        """The columns of an export."""
        return self.columns

    def export(self, instance: Any) -> list[str]:
        cells = self.cells(instance)
        return [plain_cell(cells[column]) for column in self.headers()]


def _errors_of(step: Callable[[], None]) -> list[str]:
    """Run it and return its errors, each prefixed with its column."""
    try:
        step()
    except PlatformError as error:
        errors = [each.named for each in error.errors[:MAX_ERRORS]]
        return [translate(each) for each in errors or [error.detail]]
    except ValidationError as error:
        return error.messages
    except DatabaseError as error:
        if is_retryable(error):
            raise
        logger.exception("an import failed")
        return [gettext("The database did not take this row; try again.")]
    return []


class CsvPages:
    """Import and export of the list of an admin, which names the class in `csv_pages`.

    A subclass makes its `resource` and describes the file in `import_help`.
    """

    needed_columns: ClassVar[tuple[str, ...]] = ("name",)
    ignored_columns: ClassVar[tuple[str, ...]] = ()

    def __init__(self, admin: Any) -> None:
        self.admin = admin

    # --- defined by a subclass --------------------------------------------------------------------
    def resource(self, request: HttpRequest) -> CsvResource:
        """A new resource, limited to what the user may see."""
        raise NotImplementedError(f"{type(self).__name__} must define resource()")

    def import_title(self) -> str:
        """The heading of the import page."""
        raise NotImplementedError(f"{type(self).__name__} must define import_title()")

    def import_columns(self, request: HttpRequest) -> Sequence[str]:
        """The columns that are read."""
        return self.resource(request).columns

    def import_help(self) -> Sequence[str]:
        """Sentences about the file."""
        return ()

    def with_related(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """The rows with the related rows that their cells show."""
        return rows

    def once(self, request: HttpRequest) -> int | None:
        """The id of this import from its trial page, so that it runs only once."""
        return sent_forms.number_of(request.POST.get("once", ""))

    # --- pages ------------------------------------------------------------------------------------
    def urls(self) -> CustomUrls:
        return (
            ("import/", self.admin.url_name("import"), self.import_view),
            ("export/", self.admin.url_name("export"), self.export_view),
        )

    def links(self, request: HttpRequest) -> dict[str, str]:
        """The addresses that the list leads to."""
        may_import = self._may_import(request)
        return {
            "import_url": self.admin.url("import") if may_import else "",
            "export_url": self.admin.url("export"),
        }

    def _may_import(self, request: HttpRequest) -> bool:
        may_add = self.admin.has_add_permission(request)
        return bool(may_add and self.admin.has_change_permission(request))

    def import_view(self, request: HttpRequest, *, model_admin: Any) -> HttpResponseBase:
        """The form; its first POST tries every row, the confirmed one imports them."""
        if not self._may_import(request):
            raise PermissionDenied
        sent = (request.POST, request.FILES) if request.method == "POST" else ()
        columns = self.import_columns(request)
        form = CsvForm(
            *sent, columns=columns, needed=self.needed_columns, ignored=self.ignored_columns
        )
        context = {
            "title": self.import_title(),
            "form": form,
            "columns": columns,
            "help": self.import_help(),
            "back_url": self.admin.changelist_url(),
        }
        if form.is_valid():
            is_trial = "confirmed" not in request.POST
            rows = self.resource(request).import_rows(form.rows, is_trial=is_trial)
            refused = [row for row in rows if row.errors]
            summary = _summary(rows)
            if not is_trial and not refused:
                text = gettext("Imported: %s.") % summary
                self.admin.message_user(request, text, messages.SUCCESS)
                return HttpResponseRedirect(self.admin.changelist_url())
            written = [row for row in rows if row.outcome != UNCHANGED]
            context |= {
                "refused": refused,
                "summary": summary,
                "text": form.cleaned_data["text"],
                "once": sent_forms.new_number(),
                "preview": [(row, OUTCOMES[row.outcome]) for row in written[:MAX_PREVIEWED]],
                "more": max(0, len(written) - MAX_PREVIEWED),
            }
        page: HttpResponseBase = self.admin.page(request, "admin/csv_import.html", **context)
        return page

    def export_view(self, request: HttpRequest, *, model_admin: Any) -> HttpResponseBase:
        """The rows of the list with its filters as CSV, at most MAX_EXPORTED."""
        if not self.admin.has_view_permission(request):
            raise PermissionDenied
        try:
            found: QuerySet[Any] = self.admin.get_changelist_instance(request).queryset
        except IncorrectLookupParameters:
            return HttpResponseRedirect(f"{self.admin.changelist_url()}?e=1")
        pks = list(found.values_list("pk", flat=True)[: MAX_EXPORTED + 1])
        try:
            text = self._exported(request, pks)
        except FileTooLarge:
            message = gettext(
                "More than %(rows)d rows or %(megabytes)d MB, or making the file takes longer than "
                "%(seconds)d s; narrow the list first."
            )
            message %= {
                "rows": MAX_EXPORTED,
                "megabytes": MAX_EXPORTED_BYTES // 1_048_576,
                "seconds": MAX_SECONDS,
            }
            self.admin.message_user(request, message, messages.WARNING)
            return HttpResponseRedirect(f"{self.admin.changelist_url()}?{request.GET.urlencode()}")
        model = self.admin.model
        return download(text, name=file_name(model), file=rows_of(model, len(pks)))

    def _exported(self, request: HttpRequest, pks: list[Any]) -> str:
        """The rows as CSV, read in chunks; FileTooLarge when they are more than MAX_EXPORTED, have
        more than MAX_EXPORTED_BYTES or take too long."""
        if len(pks) > MAX_EXPORTED:
            raise FileTooLarge
        resource = self.resource(request)
        file = CsvFile(resource.headers(), most=MAX_EXPORTED_BYTES)
        for chunk in chunks(pks, CHUNK):
            rows = self.with_related(self.admin.get_queryset(request)).in_bulk(chunk)
            for pk in chunk:
                if pk in rows:
                    file.add(resource.export(rows[pk]))
        return file.text


def _summary(rows: Sequence[ImportedRow]) -> str:
    counts = Counter(row.outcome for row in rows)
    return gettext("%(new)d new, %(changed)d changed, %(same)d unchanged") % {
        "new": counts[NEW],
        "changed": counts[CHANGED],
        "same": counts[UNCHANGED],
    }
