"""Executors and their groups as CSV: in with a trial run first, out without formulas."""

from __future__ import annotations

import csv
import io
import logging
import re
from collections.abc import Mapping
from typing import Any

import tablib  # type: ignore[import-untyped]
from django import forms
from django.contrib import messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from import_export import fields, resources
from import_export.results import Result, RowResult

from apps.common.admin import PlatformModelAdmin, actor_of
from apps.common.admin.theme import FileWidget, TextareaWidget
from apps.common.errors import Invalid, PlatformError
from apps.dispatch.models import Executor
from apps.dispatch.rules import names
from apps.dispatch.services import executors

logger = logging.getLogger(__name__)

MOST_ROWS = 1000
MOST_BYTES = 1_048_576
MOST_EXPORTED = 10_000
COLUMNS = ("name", "title", "enabled", "groups")
_YES, _NO = {"1", "yes", "true", "y"}, {"0", "no", "false", "n"}
# What spreadsheets take for a formula, also behind blanks and quotes and in full width.
_FORMULA = re.compile(r"[\s'\"]*[=+\-@\t\r\n＝＋－＠]")


def plain_cell(value: object) -> str:
    """The value as a cell that no spreadsheet computes: what looks like a formula gets a `'`."""
    text = "" if value is None else str(value)
    return f"'{text}" if _FORMULA.match(text) else text


def cell_text(cell: str) -> str:
    """What stood in a cell before `plain_cell`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell[1:]) else cell


class ImportForm(forms.Form):
    """A CSV file, or its text; `rows` are what was read, once the form is valid."""

    file = forms.FileField(label=_("CSV file"), required=False, widget=FileWidget())
    text = forms.CharField(
        label=_("or its text"),
        required=False,
        strip=False,
        max_length=MOST_BYTES,
        widget=TextareaWidget(attrs={"rows": 8, "class": "json", "spellcheck": "false"}),
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.errors:
            return cleaned
        file = cleaned.get("file")
        if file is not None:
            cleaned["text"] = self._decoded(file)
        if not (cleaned.get("text") or "").strip():
            raise ValidationError(gettext("Choose a file or paste its text."))
        self.rows = read_rows(cleaned["text"])
        return cleaned

    @staticmethod
    def _decoded(file: Any) -> str:
        if file.size > MOST_BYTES:
            raise ValidationError(
                gettext("The file has more than %d bytes; split it.") % MOST_BYTES
            )
        try:
            text: str = file.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValidationError(
                gettext("The file is not UTF-8 text; save it as such.")
            ) from error
        return text


def read_rows(text: str) -> tablib.Dataset:
    """The rows of a CSV text with a heading line; ValidationError tells what is wrong with it."""
    try:
        lines = list(csv.reader(io.StringIO(text.lstrip("\ufeff"), newline=""), strict=True))
    except csv.Error as error:
        raise ValidationError(gettext("This is not CSV: %s.") % error) from error
    lines = [line for line in lines if any(cell.strip() for cell in line)]
    if not lines:
        raise ValidationError(gettext("There are no rows in it."))
    headings = [heading.strip().lower() for heading in lines[0]]
    unknown = sorted(set(headings) - set(COLUMNS) - {"kind", "last_seen_at"})
    if "name" not in headings or unknown or len(set(headings)) < len(headings):
        raise ValidationError(
            gettext("The first line must name the columns, each once: %(columns)s.")
            % {"columns": ", ".join(COLUMNS)}
        )
    if len(lines) - 1 > MOST_ROWS:
        raise ValidationError(gettext("At most %d rows at once; split the file.") % MOST_ROWS)
    rows = tablib.Dataset(headers=headings)
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(headings):
            raise ValidationError(
                gettext("Row %(number)d has %(cells)d cells, and the first line %(columns)d.")
                % {"number": number, "cells": len(line), "columns": len(headings)}
            )
        rows.append([cell_text(cell.strip()) for cell in line])
    return rows


class ExecutorResource(resources.ModelResource):  # type: ignore[misc]
    """Rows become executors by the services of planning, all of them or none.

    `groups` adds the user to those groups and takes it out of none. Cells of columns that are
    empty or missing leave things as they are.
    """

    groups = fields.Field(column_name="groups")

    class Meta:
        model = Executor
        fields = ("name", "kind", "title", "enabled", "groups", "last_seen_at")
        export_order = fields
        import_id_fields = ("name",)
        use_transactions = True
        skip_diff = True
        report_skipped = True
        store_row_values = True

    def __init__(
        self, *, actor: str = "", visible: QuerySet[Executor] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.actor = actor
        self.visible = Executor.objects.all() if visible is None else visible
        self._groups: dict[str, Executor] = {}
        self._members: dict[str, set[str]] = {}
        self._joining: dict[str, list[str]] = {}

    # --- in ---------------------------------------------------------------------------------------
    def import_instance(self, instance: Executor, row: Mapping[str, str], **kwargs: Any) -> None:
        """Nothing: `save_instance` gives the row to the services."""

    def save_instance(
        self, instance: Executor, is_create: bool, row: Mapping[str, str], **kwargs: Any
    ) -> None:
        name = row["name"]
        given = {key: text for key, text in _own_values(row).items() if text is not None}
        if is_create:
            executor = executors.create_executor(name=name, actor=self.actor, **given)
        else:
            executor = self._seen(name)
            version = executor.version
            executor = executors.update_executor(
                executor=executor, changes=given, version=version, actor=self.actor
            )
            self._is_changed = executor.version != version
        for group in re.findall(r"[^\s,;|]+", row.get("groups") or ""):
            self._note_joining(executor, group)
        instance.__dict__.update(executor.__dict__)

    def before_import_row(self, row: Mapping[str, str], **kwargs: Any) -> None:
        self._is_changed = True

    def after_import_row(
        self, row: Mapping[str, str], row_result: RowResult, **kwargs: Any
    ) -> None:
        if not self._is_changed:
            row_result.import_type = RowResult.IMPORT_TYPE_SKIP

    def _note_joining(self, executor: Executor, name: str) -> None:
        """Remember that the user joins the group, which `after_import` does for all at once."""
        names.demand_user(executor.name, field="name")
        if name not in self._groups:
            group = self._seen(name)
            if not group.is_group:
                raise Invalid.field("groups", gettext("%s is a user, not a group.") % name)
            self._groups[name] = group
            self._members[name] = set(executors.member_names(group))
        if executor.name not in self._members[name]:
            self._members[name].add(executor.name)
            self._joining.setdefault(name, []).append(executor.name)
            self._is_changed = True

    def after_import(self, dataset: tablib.Dataset, result: Result, **kwargs: Any) -> None:
        for name, joining in sorted(self._joining.items()):
            executors.change_members(group=self._groups[name], add=joining, actor=self.actor)

    def _seen(self, name: str) -> Executor:
        """The executor of that name, as far as the operator may see it."""
        executor = self.visible.filter(name=name).first()
        if executor is None:
            raise Invalid.field("name", gettext("There is no executor %s.") % repr(name[:80]))
        return executor

    # --- out --------------------------------------------------------------------------------------
    def dehydrate_groups(self, executor: Executor) -> str:
        return " ".join(sorted(m.group.name for m in executor.memberships.all()))

    def export_field(self, field: Any, instance: Executor, **kwargs: Any) -> str:
        return plain_cell(super().export_field(field, instance, **kwargs))


def _own_values(row: Mapping[str, str]) -> dict[str, Any]:
    """`title` and `enabled` of a row; None where the row does not say."""
    word = (row.get("enabled") or "").lower()
    if word and word not in _YES | _NO:
        raise Invalid.field(
            "enabled", gettext("%s is neither yes nor no; write yes or no.") % repr(word[:20])
        )
    return {"title": row.get("title") or None, "enabled": word in _YES if word else None}


def trouble(result: Result) -> list[tuple[int, str, str]]:
    """The rows that were refused: line in the file, name, why."""
    refused = [
        (line + 1, errors[0].row.get("name", ""), _told(errors[0].error))
        for line, errors in result.row_errors()
    ]
    return [*((1, "", _told(error.error)) for error in result.base_errors), *refused]


def _told(error: Exception) -> str:
    if isinstance(error, PlatformError):
        return error.detail
    # The importer catches whatever a row raises; what is no mistake of the file is for the log.
    logger.error("import of executors failed", exc_info=error)
    return gettext("The database did not take this row; try again.")


class ExchangeMixin(PlatformModelAdmin):
    """The import and export of executors, before VersionedModelAdmin."""

    change_list_template = "admin/executors_list.html"

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("import/", wrap(self.import_view), name="dispatch_executor_import"),
            path("export/", wrap(self.export_view), name="dispatch_executor_export"),
            *super().get_urls(),
        ]

    def has_import_permission(self, request: HttpRequest) -> bool:
        return self.has_add_permission(request) and self.has_change_permission(request)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        context = {"may_import": self.has_import_permission(request), **(extra_context or {})}
        return super().changelist_view(request, context)

    def import_view(self, request: HttpRequest) -> HttpResponseBase:
        """The form; sent, a trial run of every row; sent again as it came, the import itself."""
        if not self.has_import_permission(request):
            raise PermissionDenied
        is_sent = request.method == "POST"
        form = ImportForm(request.POST, request.FILES) if is_sent else ImportForm()
        request.current_app = self.admin_site.name
        context = {
            **self.admin_site.each_context(request),
            "title": gettext("Import executors"),
            "opts": self.opts,
            "form": form,
            "columns": ", ".join(COLUMNS),
            "back_url": self.changelist_url(),
        }
        if form.is_valid():
            is_trial = "confirmed" not in request.POST
            result = self._import(request, form.rows, is_trial=is_trial)
            refused = trouble(result)
            counts = result.totals
            told = gettext("%(new)d new, %(changed)d changed, %(same)d as they were") % {
                "new": counts[RowResult.IMPORT_TYPE_NEW],
                "changed": counts[RowResult.IMPORT_TYPE_UPDATE],
                "same": counts[RowResult.IMPORT_TYPE_SKIP],
            }
            if not is_trial and not refused:
                self.message_user(request, gettext("Imported: %s.") % told, messages.SUCCESS)
                return HttpResponseRedirect(self.changelist_url())
            context |= {"refused": refused, "told": told, "text": form.cleaned_data["text"]}
        return TemplateResponse(request, "admin/executors_import.html", context)

    def _import(self, request: HttpRequest, rows: tablib.Dataset, *, is_trial: bool) -> Result:
        visible = Executor.objects.visible_to(request.user)
        resource = ExecutorResource(actor=actor_of(request), visible=visible)
        return resource.import_data(rows, dry_run=is_trial, use_transactions=True)

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """The executors of the list with its filters as CSV, at most MOST_EXPORTED."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            found: QuerySet[Executor] = self.get_changelist_instance(request).queryset
        except IncorrectLookupParameters:
            return HttpResponseRedirect(f"{self.changelist_url()}?e=1")
        rows = found.prefetch_related("memberships__group")[: MOST_EXPORTED + 1]
        if len(rows) > MOST_EXPORTED:
            text = gettext("More than %d executors; narrow the list by its filters first.")
            self.message_user(request, text % MOST_EXPORTED, messages.WARNING)
            return HttpResponseRedirect(self.changelist_url())
        data = ExecutorResource().export(rows)
        lines = io.StringIO()
        csv.writer(lines, quoting=csv.QUOTE_ALL).writerows([data.headers, *data])
        return HttpResponse(
            lines.getvalue(),
            content_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": 'attachment; filename="executors.csv"'},
        )
