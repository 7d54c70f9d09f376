"""A list as CSV: in by the services with a trial run first, out as far as its filters go."""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import tablib  # type: ignore[import-untyped]
from django.contrib import messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.signing import BadSignature, Signer
from django.db import DatabaseError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from import_export import resources
from import_export.results import Result, RowResult

from apps.common import ids
from apps.common.admin.base import PlatformModelAdmin
from apps.common.admin.csv_text import CsvForm, download, plain_cell
from apps.common.admin.display import shown_text, translate
from apps.common.db import is_retryable, transactional
from apps.common.errors import Invalid, PlatformError

logger = logging.getLogger(__name__)

SALT = "import"
MAX_EXPORTED = 10_000
MAX_EXPORTED_BYTES = 32 * 1_048_576
CHUNK = 500
MAX_TOLD = 30
MAX_PREVIEWED = 100
MAX_NAME = 120


class LockLost(BaseException):
    """The database gave up on a lock, so the whole import has to be run again.

    No Exception, because the importer takes each of those for the mistake of one row.
    """

    def __init__(self, error: DatabaseError) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def _errors_told() -> Iterator[None]:
    """Errors as the importer has to see them."""
    try:
        yield
    except DatabaseError as error:
        if is_retryable(error):
            raise LockLost(error) from error
        raise
    except ValidationError as error:
        # The importer keeps those apart from other errors, and imports the other rows.
        raise Invalid(" ".join(error.messages)) from error


class ServiceResource(resources.ModelResource):  # type: ignore[misc]
    """Rows become rows of the model by services, all of them or none.

    A subclass gives a row of the file to the services in `write`, and names in `cells` what each
    of its `columns` shows of a row of the model. What it puts into `told` stands beside the row in
    the trial run.
    """

    columns: ClassVar[tuple[str, ...]] = ()
    told = ""

    class Meta:
        use_transactions = True
        skip_diff = True
        report_skipped = True
        store_row_values = True

    # --- what a subclass says ---------------------------------------------------------------------
    def write(self, instance: Any, row: Mapping[str, str], *, is_new: bool) -> bool:
        """Have a service make or change it; False when there was nothing to change."""
        raise NotImplementedError(f"{type(self).__name__} must define write()")

    def cells(self, instance: Any) -> dict[str, Any]:
        """What the columns show."""
        raise NotImplementedError(f"{type(self).__name__} must define cells()")

    def finish(self, *, is_trial: bool) -> None:
        """Write what concerns all rows together; what a trial run writes is rolled back."""

    # --- in ---------------------------------------------------------------------------------------
    def import_instance(self, instance: Any, row: Mapping[str, str], **kwargs: Any) -> None:
        """Nothing: `write` gives the row to the services."""

    def save_instance(
        self, instance: Any, is_create: bool, row: Mapping[str, str], **kwargs: Any
    ) -> None:
        self.told = ""
        with _errors_told():
            self._is_changed = self.write(instance, row, is_new=is_create)

    def after_import_row(
        self, row: Mapping[str, str], row_result: RowResult, **kwargs: Any
    ) -> None:
        row_result.told = self.told
        if not self._is_changed:
            row_result.import_type = RowResult.IMPORT_TYPE_SKIP

    def after_import(self, dataset: tablib.Dataset, result: Result, **kwargs: Any) -> None:
        if not result.has_errors():
            with _errors_told():
                self.finish(is_trial=bool(kwargs.get("dry_run")))

    # --- out --------------------------------------------------------------------------------------
    def get_export_headers(self, selected_fields: Any = None) -> list[str]:
        return list(self.columns)

    def export_resource(self, instance: Any, **kwargs: Any) -> list[str]:
        cells = self.cells(instance)
        return [plain_cell(cells[column]) for column in self.columns]


def _told(error: Exception) -> list[str]:
    """Every mistake of a row, each after the column that it is in."""
    if isinstance(error, PlatformError):
        told = [each.named for each in error.errors[:MAX_TOLD]]
        return [translate(each) for each in told or [error.detail]]
    # The importer catches whatever a row raises; what is no mistake of the file is for the log.
    logger.error("an import failed", exc_info=error)
    return [gettext("The database did not take this row; try again.")]


class CsvExchange(PlatformModelAdmin):
    """The import and export of a list, before the other bases.

    A subclass makes its `resource` and says what is asked of a file.
    """

    change_list_template = "admin/exchange_list.html"
    import_title: ClassVar[str | Promise] = _("Import")
    # The columns that tell one row of a file from another, for the list of those refused.
    row_names: ClassVar[tuple[str, ...]] = ("name",)
    needed_columns: ClassVar[tuple[str, ...]] = ("name",)
    ignored_columns: ClassVar[tuple[str, ...]] = ()

    # --- what a subclass says ---------------------------------------------------------------------
    def resource(self, request: HttpRequest) -> ServiceResource:
        """A new resource that sees what the person behind the request may see."""
        raise NotImplementedError(f"{type(self).__name__} must define resource()")

    def import_columns(self, request: HttpRequest) -> Sequence[str]:
        """The columns that are read."""
        return self.resource(request).columns

    def import_help(self) -> Sequence[str]:
        """What to know about the file, in sentences."""
        return ()

    def with_related(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """The rows with whatever their cells show."""
        return rows

    def once(self, request: HttpRequest) -> int | None:
        """The id that was made for this import when its trial was shown; None without one."""
        try:
            return int(Signer(salt=SALT).unsign(request.POST.get("once", "")))
        except BadSignature:
            return None

    # --- pages ------------------------------------------------------------------------------------
    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("import/", wrap(self.import_view), name=self._url_name("import")),
            path("export/", wrap(self.export_view), name=self._url_name("export")),
            *super().get_urls(),
        ]

    def _url_name(self, what: str) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_{what}"

    def has_import_permission(self, request: HttpRequest) -> bool:
        return self.has_add_permission(request) and self.has_change_permission(request)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        site = self.admin_site.name
        context = {
            "import_url": reverse(f"{site}:{self._url_name('import')}")
            if self.has_import_permission(request)
            else "",
            "export_url": reverse(f"{site}:{self._url_name('export')}"),
            **(extra_context or {}),
        }
        return super().changelist_view(request, context)

    def import_view(self, request: HttpRequest) -> HttpResponseBase:
        """The form; sent, a trial run of every row; sent again as it came, the import itself."""
        if not self.has_import_permission(request):
            raise PermissionDenied
        sent = (request.POST, request.FILES) if request.method == "POST" else ()
        columns = self.import_columns(request)
        form = CsvForm(
            *sent, columns=columns, needed=self.needed_columns, ignored=self.ignored_columns
        )
        request.current_app = self.admin_site.name
        context = {
            **self.admin_site.each_context(request),
            "title": self.import_title,
            "opts": self.opts,
            "form": form,
            "columns": columns,
            "help": self.import_help(),
            "back_url": self.changelist_url(),
        }
        if form.is_valid():
            is_trial = "confirmed" not in request.POST
            result = self._import(request, form.rows, is_trial=is_trial)
            refused = self._refused(result)
            told = _counted(result)
            if not is_trial and not refused:
                self.message_user(request, gettext("Imported: %s.") % told, messages.SUCCESS)
                return HttpResponseRedirect(self.changelist_url())
            context |= {
                "refused": refused,
                "told": told,
                "text": form.cleaned_data["text"],
                "once": Signer(salt=SALT).sign(str(ids.next_id())),
                **self._preview(result),
            }
        return TemplateResponse(request, "admin/exchange_import.html", context)

    def _import(self, request: HttpRequest, rows: tablib.Dataset, *, is_trial: bool) -> Result:
        @transactional
        def run() -> Result:
            try:
                return self.resource(request).import_data(
                    rows, dry_run=is_trial, use_transactions=True
                )
            except LockLost as lost:
                raise lost.error from lost

        return run()

    def _refused(self, result: Result) -> list[tuple[int, str, list[str]]]:
        """The rows that were refused: line in the file, name, why."""

        return [
            *((1, "", _told(error.error)) for error in result.base_errors),
            *(
                (line + 1, self._row_name(errors[0].row), _told(errors[0].error))
                for line, errors in result.row_errors()
            ),
        ]

    def _preview(self, result: Result) -> dict[str, Any]:
        """What would become of the rows that are not as they were, the first of them by name."""
        words = {
            RowResult.IMPORT_TYPE_NEW: gettext("will be new"),
            RowResult.IMPORT_TYPE_UPDATE: gettext("will be changed"),
        }
        written = [
            (line, row) for line, row in enumerate(result.rows, start=2) if row.import_type in words
        ]
        shown = [
            (line, self._row_name(row.row_values), words[row.import_type], row.told)
            for line, row in written[:MAX_PREVIEWED]
        ]
        return {"preview": shown, "more": len(written) - len(shown)}

    def _row_name(self, row: Mapping[str, str]) -> str:
        name = next((row[name] for name in self.row_names if row.get(name)), "")
        return shown_text(name, limit=MAX_NAME)

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """The rows of the list with its filters as CSV, at most MAX_EXPORTED."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            found: QuerySet[Any] = self.get_changelist_instance(request).queryset
        except IncorrectLookupParameters:
            return HttpResponseRedirect(f"{self.changelist_url()}?e=1")
        pks = list(found.values_list("pk", flat=True)[: MAX_EXPORTED + 1])
        text = None if len(pks) > MAX_EXPORTED else self._exported(request, pks)
        if text is None:
            told = gettext("More than %(rows)d rows or %(megabytes)d MB; narrow the list first.")
            told %= {"rows": MAX_EXPORTED, "megabytes": MAX_EXPORTED_BYTES // 1_048_576}
            self.message_user(request, told, messages.WARNING)
            return HttpResponseRedirect(f"{self.changelist_url()}?{request.GET.urlencode()}")
        return download(text, name=f"{self.opts.model_name}s.csv")

    def _exported(self, request: HttpRequest, pks: list[Any]) -> str | None:
        """The rows as text, read in chunks; None when it becomes too much."""
        resource = self.resource(request)
        lines = io.StringIO()
        writer = csv.writer(lines, quoting=csv.QUOTE_ALL)
        writer.writerow(resource.get_export_headers())
        for start in range(0, len(pks), CHUNK):
            chunk = pks[start : start + CHUNK]
            rows = self.with_related(self.get_queryset(request)).in_bulk(chunk)
            writer.writerows(resource.export([rows[pk] for pk in chunk if pk in rows]))
            if lines.tell() > MAX_EXPORTED_BYTES:
                return None
        return lines.getvalue()


def _counted(result: Result) -> str:
    counts = result.totals
    return gettext("%(new)d new, %(changed)d changed, %(same)d as they were") % {
        "new": counts[RowResult.IMPORT_TYPE_NEW],
        "changed": counts[RowResult.IMPORT_TYPE_UPDATE],
        "same": counts[RowResult.IMPORT_TYPE_SKIP],
    }
