"""Templates in the admin: a schema editor whose every save is the next version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Count, Exists, OuterRef, QuerySet
from django.http import HttpRequest
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin import ServiceForm, ServiceModelAdmin, reason_action
from apps.common.admin.base import Panel
from apps.common.admin.display import column, label, state_label, time_column
from apps.common.admin.filters import list_filters
from apps.common.admin.html import bullets, page_link
from apps.common.admin.json_text import JsonTextField
from apps.common.errors import FieldError, PlatformError
from apps.common.filtersets import Choice, RowFilters
from apps.dispatch.models import OnceTask, RotateTask, Template
from apps.dispatch.services import templates
from apps.journal.admin import RecordedAdmin

STATE_COLOURS = {Template.Status.ACTIVE: "success", Template.Status.RETIRED: "warning"}
MAX_VERSIONS = 50
STARTING_SCHEMA = {
    "type": "object",
    "properties": {"shop": {"type": "string", "title": "Shop", "minLength": 1}},
    "required": ["shop"],
    "additionalProperties": False,
}


class TemplateForm(ServiceForm):
    schema = JsonTextField(
        label=_("Schema"),
        rows=16,
        help_text=_(
            "JSON Schema 2020-12 of type object. Properties of type string (also date, date-time), "
            "integer, number, boolean, enum, list of strings and objects of these become form "
            "fields; everything else is edited as JSON."
        ),
    )

    class Meta:
        model = Template
        fields = ("name", "schema")

    def rule_errors(self) -> Sequence[FieldError]:
        name = self.cleaned_data.get("name", self.instance.name)
        try:
            templates.check(name, self.cleaned_data.get("schema") or {})
        except PlatformError as refusal:
            return refusal.errors
        return ()


def _newest(rows: Any, _name: str, _value: str) -> Any:
    return rows.filter(is_newest=True)


class TemplateFilters(RowFilters):
    """Newest versions only are what most people look for."""

    versions = Choice((("newest", _("newest only")),), label=_("versions"), method=_newest)
    status = Choice(Template.Status.choices, label=_("status"))


class TemplateAdmin(RecordedAdmin, ServiceModelAdmin):
    """One row a version. Only the newest can be edited, and saving it makes the next one."""

    form = TemplateForm
    is_removable = True
    when_empty = _("A template says which params its tasks must carry.")
    list_display = (
        "name",
        "shown_version",
        "shown_status",
        "used_by",
        "shown_first_use",
        "created",
    )
    list_mobile = (
        ("shown_status", "name", "shown_version"),
        ("used_by", "created"),
    )
    list_display_links = ("name", "shown_version")
    list_filter = list_filters(TemplateFilters)
    list_defer = ("schema",)
    search_fields = ("name",)
    ordering = ("name", "-version")
    actions = ("retire", "activate")

    shown_status = state_label("status", STATE_COLOURS, _("status"))
    shown_first_use = time_column("first_used_at", _("first used"), ordering="first_used_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Template]:
        newer = Template.objects.filter(name=OuterRef("name"), version__gt=OuterRef("version"))
        rows: QuerySet[Template] = super().get_queryset(request)
        return rows.annotate(is_newest=~Exists(newer))

    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        counts: Counter[int] = Counter()
        for model in (OnceTask, RotateTask):
            using: QuerySet[Any] = model._default_manager.filter(template__in=[r.pk for r in rows])
            counts.update(dict(using.order_by().values_list("template").annotate(Count("pk"))))
        for row in rows:
            row.task_count = counts[row.pk]

    @column(_("version"), ordering="version")
    def shown_version(self, template: Any) -> SafeString:
        newest = label(gettext("newest"), "info") if template.is_newest else ""
        return format_html("v{} {}", template.version, newest)

    @column(_("used by"))
    def used_by(self, template: Any) -> str:
        count: int = template.task_count
        return ngettext("%d task", "%d tasks", count) % count if count else "–"

    @column(_("created"), ordering="created_at")
    def created(self, template: Template) -> str:
        by = template.created_by or gettext("the platform")
        day = date_format(localtime(template.created_at), "SHORT_DATE_FORMAT")
        return gettext("%(at)s by %(by)s") % {"at": day, "by": by}

    # --- the form ---------------------------------------------------------------------------------
    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return [(None, {"fields": ["name", "schema"]})]
        described = {
            "fields": ["name", "shown_version", "shown_status"],
            "description": gettext(
                "A version never changes: tasks that use it keep it. Saving an edited schema makes "
                "the next version."
            ),
        }
        return [(None, described), (None, {"fields": ["schema"]})]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return () if obj is None else ("name", "shown_version", "shown_status")

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"schema": STARTING_SCHEMA}

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        is_frozen = obj is not None and not getattr(obj, "is_newest", False)
        return super().has_change_permission(request, obj) and not is_frozen

    def has_retire_permission(self, request: HttpRequest) -> bool:
        return super().has_change_permission(request)

    def current(self, obj: Any) -> Template | None:
        return Template.objects.latest_of(obj.name)

    def changed_by(self, row: Template) -> str:
        return row.created_by or super().changed_by(row)

    def create(self, request: HttpRequest, form: Any, *, actor: str) -> Template:
        values = form.cleaned_data
        return templates.put_template(
            name=values["name"], schema=values["schema"] or {}, actor=actor, new=True
        )

    def update(
        self, request: HttpRequest, row: Template, form: Any, *, version: int, actor: str
    ) -> Template:
        return templates.put_template(
            name=row.name, schema=form.cleaned_data["schema"] or {}, actor=actor, based_on=version
        )

    def blockers(self, row: Template) -> Sequence[str]:
        if row.first_used_at is None:
            return ()
        return [gettext("It has been used by tasks and is kept for them; retire it instead.")]

    def remove(self, request: HttpRequest, row: Template, *, actor: str) -> None:
        templates.remove_template(template=row, actor=actor)

    # --- the page ---------------------------------------------------------------------------------
    def panels(self, request: HttpRequest, row: Template) -> list[Panel]:
        versions = Template.objects.filter(name=row.name).order_by("-version")[:MAX_VERSIONS]
        rows = list(versions.defer("schema"))
        self.prepare_page(request, rows)
        listed = bullets(
            format_html(
                "{} {} {}",
                page_link(Template, version.pk, f"v{version.version}"),
                self.used_by(version),
                "" if version.status == Template.Status.ACTIVE else version.get_status_display(),
            )
            for version in rows
        )
        return [Panel(_("Versions"), listed), *super().panels(request, row)]

    @reason_action(
        description=_("Retire"),
        permission="retire",
        question=_("New tasks can then no longer choose them; tasks that have them keep them."),
        icon="archive",
        offered=lambda template: template.status == Template.Status.ACTIVE,
    )
    def retire(self, row: Template, *, reason: str, actor: str) -> bool:
        return templates.set_status(
            template=row, status=Template.Status.RETIRED, actor=actor, reason=reason
        )

    @reason_action(
        description=_("Make active again"),
        permission="retire",
        question=_("New tasks can then choose them again."),
        icon="unarchive",
        offered=lambda template: template.status == Template.Status.RETIRED,
    )
    def activate(self, row: Template, *, reason: str, actor: str) -> bool:
        return templates.set_status(
            template=row, status=Template.Status.ACTIVE, actor=actor, reason=reason
        )


admin.site.register(Template, TemplateAdmin)
