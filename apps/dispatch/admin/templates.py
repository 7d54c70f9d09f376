"""Templates in the admin: a schema editor whose every save is the next version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Count
from django.http import HttpRequest, HttpResponseRedirect
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import column, label, time_column, translate
from apps.common.admin.filters import list_filters
from apps.common.filtersets import Choice, RowFilters
from apps.dispatch.admin import template_page
from apps.dispatch.admin.template_form import TASKS, TemplateForm
from apps.dispatch.models import Template
from apps.dispatch.services import templates
from apps.dispatch.services.fitting import has_earlier
from apps.journal.admin.versions import NamedVersionAdmin, status_actions

STARTING_SCHEMA = {
    "type": "object",
    "properties": {"shop": {"type": "string", "title": "Shop", "minLength": 1}},
    "required": ["shop"],
    "additionalProperties": False,
}


def _newest(rows: Any, _name: str, _value: str) -> Any:
    return rows.filter(is_newest=True)


class TemplateFilters(RowFilters):
    """The filters of templates; most people look for newest versions only."""

    versions = Choice((("newest", _("newest only")),), label=_("versions"), method=_newest)
    status = Choice(Template.Status.choices, label=_("status"))


class TemplateAdmin(NamedVersionAdmin):
    """One row a version."""

    form = TemplateForm
    add_form_template = change_form_template = "admin/template_form.html"
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
    search_help_text = _("Part of a name")
    ordering = ("name", "-version")

    shown_first_use = time_column("first_used_at", _("first used"), ordering="first_used_at")

    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        counts: Counter[int] = Counter()
        for tasks in template_page.tasks_for(self.admin_site, request):
            using = tasks.filter(template__in=[row.pk for row in rows])
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
        # The page has its own places for them.
        return [(None, {"fields": ["name", "schema"] if obj is None else ["schema"]})]

    def form_knows(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        return {"asked": request.GET.get("tab", "")}

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"schema": STARTING_SCHEMA}

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        is_frozen = obj is not None and not getattr(obj, "is_newest", False)
        return super().has_change_permission(request, obj) and not is_frozen

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
            return [*map(translate, templates.uses_of(row))]
        return [gettext("It has been used by tasks and is kept for them; retire it instead.")]

    def remove(self, request: HttpRequest, row: Template, *, actor: str) -> None:
        templates.remove_template(template=row, actor=actor)

    def response_change(self, request: HttpRequest, obj: Any) -> Any:
        response = super().response_change(request, obj)
        rows = template_page.tasks_for(self.admin_site, request)
        if "_save" in request.POST and has_earlier(obj, rows):
            return HttpResponseRedirect(f"{self.change_url(obj.pk)}?tab={TASKS}")
        return response

    # --- the page ---------------------------------------------------------------------------------
    def page_context(self, request: HttpRequest, row: Any, form: Any) -> dict[str, Any]:
        saves = dict.fromkeys(("show_save_and_continue", "show_save_and_add_another"), False)
        return {**template_page.context(self, request, form, row), **saves}

    retire, activate = status_actions(
        _("New tasks can then no longer choose them; tasks that have them keep them."),
        _("New tasks can then choose them again."),
    )


admin.site.register(Template, TemplateAdmin)
