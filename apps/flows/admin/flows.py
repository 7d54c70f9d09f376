"""Flows in the admin: the list, and the form whose every save is the next version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.buttons import Button
from apps.common.admin.changelist import PlatformChangeList
from apps.common.admin.display import column, short_time, shown_text
from apps.common.admin.filters import list_filters
from apps.common.admin.html import link, list_url, page_url
from apps.common.admin.list_head import NextStep
from apps.common.admin.service import DRAFT
from apps.common.filtersets import Choice, RowFilters
from apps.common.readers import read_number
from apps.flows.admin import form_page
from apps.flows.admin.example import EXAMPLE, example
from apps.flows.admin.flow_form import FlowForm
from apps.flows.admin.flow_page import flow_page, tabs_of
from apps.flows.admin.run_words import run_state
from apps.flows.admin.start_page import start_page
from apps.flows.admin.step_words import steps_line
from apps.flows.models import OPEN, Flow, FlowRun
from apps.flows.services import flows
from apps.flows.services.lately import lately_of
from apps.jobs.models import bounds_of
from apps.journal.admin.versions import NamedVersionAdmin, status_actions

COPY = "copy"
STARTING: dict[str, Any] = {"steps": []}


class FlowFilters(RowFilters):
    status = Choice(Flow.Status.choices, label=_("status"))


class NewestFlows(PlatformChangeList):
    """One row a flow: earlier versions are on its page."""

    def get_queryset(self, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        return super().get_queryset(*args, **kwargs).filter(is_newest=True)


class FlowAdmin(NamedVersionAdmin):
    form = FlowForm
    add_form_template = change_form_template = "admin/flows/form.html"
    when_empty = _("A flow is a graph of steps, for people and for programs. Add one here.")
    next_steps = (
        NextStep(
            _("Begin with an example"),
            "admin:flows_flow_add",
            "flows.add_flow",
            query=f"?{EXAMPLE}=1",
        ),
    )
    list_display = (
        *("shown_status", "shown_name", "shown_steps"),
        *("shown_open", "shown_last", "shown_success", "shown_start"),
    )
    list_mobile = (
        ("shown_status", "shown_name", "shown_start"),
        ("shown_steps", "shown_open", "shown_last"),
    )
    list_display_links = ("shown_name",)
    list_filter = list_filters(FlowFilters)
    list_tabs = "status"
    search_fields = ("name", "title")
    search_help_text = _("Part of a name or title")
    ordering = ("name",)
    payload_fields = ("definition",)
    custom_urls = (
        ("<int:pk>/", "flows_flow_page", flow_page),
        ("<int:pk>/start/", "flows_flow_start", start_page),
    )

    # --- who may ----------------------------------------------------------------------------------
    def has_start_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return self._has_own_permission(request, "start_flow")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whether this person may make the next version, which shows all of a definition.

        What is sent from the form of an earlier one is refused with what has changed since.
        """
        may = super().has_change_permission(request, obj) and self.has_payload_permission(request)
        is_sent = request.method == "POST"
        return may and (obj is None or is_sent or getattr(obj, "is_newest", False))

    # --- the list ---------------------------------------------------------------------------------
    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[PlatformChangeList]:
        return NewestFlows

    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        user: Any = request.user
        names = [row.name for row in rows] if user.has_perm("flows.view_flowrun") else []
        found = lately_of(names, FlowRun.objects.visible_to(user), clock.now())
        may_start = self.has_start_permission(request)
        for row in rows:
            row.lately = found.get(row.name)
            row.may_start = may_start and row.status == Flow.Status.ACTIVE

    @column(_("name"), ordering="name")
    def shown_name(self, flow: Flow) -> SafeString:
        """Its title, or its name; the name and the version small beside it."""
        title, version = shown_text(flow.title, limit=80), f"v{flow.version}"
        return format_html(
            '<bdi>{}</bdi> <small class="faint">{}</small>',
            title or flow.name,
            f"{flow.name} {version}" if title else version,
        )

    @column(_("steps"))
    def shown_steps(self, flow: Flow) -> str:
        return steps_line(flow.read)

    @column(_("open"))
    def shown_open(self, flow: Any) -> SafeString | str:
        if not flow.lately or not flow.lately.open:
            return "–"
        text = ngettext("%d run", "%d runs", flow.lately.open) % flow.lately.open
        return link(list_url(FlowRun, flow=flow.name, status=OPEN[0]), text)

    @column(_("last run"))
    def shown_last(self, flow: Any) -> SafeString | str:
        run = flow.lately and flow.lately.last
        if not run:
            return "–"
        shown = link(page_url(FlowRun, run.pk), short_time(run.created_at))
        return format_html("{} {}", run_state(run), shown)

    @column(_("7 days"))
    def shown_success(self, flow: Any) -> str:
        lately = flow.lately
        if not lately or not lately.ended:
            return "–"
        return f"{lately.succeeded:,} / {lately.ended:,}"

    @column(_("start"))
    def shown_start(self, flow: Any) -> SafeString | str:
        if not flow.may_start:
            return ""
        return link(self.url("start", flow.pk), gettext("Start…"), look="cell-button")

    # --- the form ---------------------------------------------------------------------------------
    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        # The page has its own places for them.
        own = ["name"] if obj is None else []
        return [(None, {"fields": [*own, "title", "definition"]})]

    def form_knows(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        return {
            "asked": request.GET.get("tab", ""),
            "bounds": bounds_of(request.user),
            "copied": None if obj is not None else self._copied(request),
        }

    def _copied(self, request: HttpRequest) -> Any:
        """The flow that the address says to copy, if this person may see all of it."""
        number = read_number(request.GET.get(COPY, ""))
        may_see = self.has_view_permission(request) and self.has_payload_permission(request)
        if number is None or not may_see:
            return None
        return self.get_object(request, str(number))

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        copied = self._copied(request)
        if copied is None and EXAMPLE in request.GET:
            return example(request.user, bounds_of(request.user))
        if copied is None:
            return {"definition": STARTING}
        return {"title": copied.title, "definition": copied.definition}

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> Any:
        row: Any = self.get_object(request, unquote(object_id))
        is_read = row is not None and self.has_view_permission(request, row)
        if is_read and request.method == "GET" and not self.has_change_permission(request, row):
            return HttpResponseRedirect(self.row_url(row.pk))
        return super().change_view(request, object_id, form_url, extra_context)

    def page_context(self, request: HttpRequest, row: Any, form: Any) -> dict[str, Any]:
        found = form_page.context(self, request, form, row)
        found["show_save_and_continue"] = found["show_save_and_add_another"] = False
        if row is not None:
            found["header_tabs"] = tabs_of(self, request, row, "edit")
        return found

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        form = context["adminform"].form
        if form.newer is None and request.POST.get(DRAFT) == form_page.LIVE:
            live = form_page.context(self, request, form, kwargs.get("obj"))
            return render(request, "admin/flows/live.html", context | live)
        return super().render_change_form(request, context, *args, **kwargs)

    def history_tabs(self, request: HttpRequest, row: Flow) -> dict[str, Any]:
        return tabs_of(self, request, row, "history")

    def create(self, request: HttpRequest, form: Any, *, actor: str) -> Flow:
        return flows.put_flow(**form.values, actor=actor, new=True, bounds=form.bounds)

    def update(
        self, request: HttpRequest, row: Flow, form: Any, *, version: int, actor: str
    ) -> Flow:
        return flows.put_flow(
            name=row.name, **form.values, actor=actor, based_on=version, bounds=form.bounds
        )

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: Any = None) -> Any:
        super().response_add(request, obj, post_url_continue)
        return HttpResponseRedirect(self.row_url(obj.pk))

    def response_change(self, request: HttpRequest, obj: Any) -> Any:
        super().response_change(request, obj)
        return HttpResponseRedirect(self.row_url(obj.pk))

    # --- the page ---------------------------------------------------------------------------------
    def row_url(self, pk: int | str) -> str:
        return self.url("page", pk)

    def buttons(self, request: HttpRequest, row: Any) -> list[Button]:
        found = []
        can_start = row.is_newest and row.status == Flow.Status.ACTIVE
        if can_start and self.has_start_permission(request):
            found.append(self._button("start", _("Start…"), "play_circle", row))
        if self.has_change_permission(request, row):
            found.append(self._button("change", _("Edit"), "edit", row))
        if self.has_add_permission(request) and self.has_payload_permission(request):
            url = f"{self.url('add')}?{urlencode({COPY: row.pk})}"
            found.append(Button(url=url, text=_("Copy"), icon="content_copy", is_dangerous=False))
        return [*found, *(super().buttons(request, row) if row.is_newest else ())]

    def _button(self, page: str, text: Any, icon: str, row: Flow) -> Button:
        return Button(url=self.url(page, row.pk), text=text, icon=icon, is_dangerous=False)

    retire, activate = status_actions(
        _("They can then no longer be started; runs go on."),
        _("They can then be started again."),
    )


admin.site.register(Flow, FlowAdmin)
