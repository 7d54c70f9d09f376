"""The bases of every admin page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import messages
from django.contrib.admin import ShowFacets, helpers
from django.contrib.admin import display as admin_display
from django.contrib.admin.utils import quote, unquote
from django.contrib.admin.views.main import ERROR_FLAG, PAGE_VAR
from django.contrib.messages import get_messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import models
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common import saved_views
from apps.common.admin import actions, views_page
from apps.common.admin.actions import CustomUrls
from apps.common.admin.buttons import Button, buttons, shared_out
from apps.common.admin.changelist import (
    CountedPaginator,
    CountFreePaginator,
    PlatformChangeList,
    tidied,
    tidy_search,
)
from apps.common.admin.columns import ListColumn, chosen_columns, unknown
from apps.common.admin.csv_pages import CsvPages
from apps.common.admin.display import page_zone
from apps.common.admin.list_head import NextStep, steps_for
from apps.common.admin.list_rows import row_box
from apps.common.admin.misshapen import say_misshapen
from apps.common.admin.pages import Panel, framed
from apps.common.admin.payload_filter import from_search_box
from apps.common.admin.time_inputs import SplitInstantField, SplitTimeInput
from apps.common.admin.timeline import Moment, render_timeline

if TYPE_CHECKING:
    # unfold has no types; its classes are Django's with more templates.
    from django.contrib import admin

    ModelAdmin = admin.ModelAdmin[Any]
else:
    from unfold.admin import ModelAdmin

MAX_SELECTED = 1000
# The parameter that asks for the changing part of a list alone, for a list that renews itself.
PART = "_part"


def live_url(request: HttpRequest, changelist: Any) -> str:
    """The address of the newest rows of a list; "" below its first page, whose rows stay."""
    is_first = changelist.is_at_the_start and not request.GET.get(PAGE_VAR)
    if not is_first or ERROR_FLAG in request.GET:
        return ""
    query = request.GET.copy()
    query[PART] = "rows"
    return f"?{query.urlencode()}"


def _without_indents(page: HttpResponse) -> None:
    # Indents in the templates of the theme are a fifth of a list.
    page.content = re.sub(rb"\n\s+", b"\n", page.content)


class PlatformModelAdmin(ModelAdmin):
    """Lists that accept any address, rows by permission, actions that ask for a reason.

    If the model's queryset has `visible_to(user)`, only those rows are listed, found and acted on.
    Fields in `payload_fields` need the permission `<app>.view_payload`. An action made by
    `actions.ReasonAction` is also a button on the page of a row. What `timeline` returns is shown
    as history.
    """

    formfield_overrides: ClassVar[Any] = {
        models.DateTimeField: {"form_class": SplitInstantField, "widget": SplitTimeInput}
    }
    list_per_page = 50
    list_max_show_all = 200
    show_full_result_count = False
    show_facets = ShowFacets.NEVER
    list_filter_submit = True
    list_fullwidth = True
    warn_unsaved_form = True
    payload_fields: ClassVar[tuple[str, ...]] = ()
    # The columns of the two lines of a row on a narrow screen; without, all of them as on a card.
    list_mobile: ClassVar[tuple[tuple[str, ...], tuple[str, ...]]] = ((), ())
    # Where people can choose columns: those of `list_display` and more; the first leads to the row.
    list_columns: ClassVar[Sequence[ListColumn]] = ()
    # Columns that a list without `list_columns` leaves out where no row of the page has a value.
    list_if_any: ClassVar[Sequence[str]] = ()
    # The parameter of the filter whose choices are tabs above the list.
    list_tabs: ClassVar[str] = ""
    # Tabs beside the first of these by another filter: its parameter, the value and the text.
    tabs_beside: ClassVar[Sequence[tuple[str, str, str | Promise]]] = ()
    # The parameter of the filter that tells the pages of the list apart, as the menu has them.
    list_place: ClassVar[str] = ""
    # Heavy columns that the list leaves in the database.
    list_defer: ClassVar[tuple[str, ...]] = ()
    # Whether the list says how many rows there are; if not, it has links to the next page only.
    list_is_counted: ClassVar[bool] = True
    paginator = CountedPaginator
    # Whether the list is made for a file, which needs no buttons and titles.
    is_exported = False
    # Import and export of the list.
    csv_pages: ClassVar[type[CsvPages] | None] = None
    # Further pages: path, name and a view that also gets this admin as `model_admin`.
    custom_urls: ClassVar[CustomUrls] = ()

    # --- who sees what --------------------------------------------------------------------------
    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request)
        visible_to = getattr(rows, "visible_to", None)
        return rows if visible_to is None else visible_to(request.user)

    def has_operate_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Whether this person may control running work."""
        return self._has_own_permission(request, f"operate_{self.opts.model_name}")

    def has_payload_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Whether this person may see params and results."""
        return self._has_own_permission(request, "view_payload")

    def _has_own_permission(self, request: HttpRequest, codename: str) -> bool:
        user: Any = request.user
        return bool(user.has_perm(f"{self.opts.app_label}.{codename}"))

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)
        if not self.payload_fields or self.has_payload_permission(request, obj):
            return fieldsets
        shown = [(name, self._without_payload(options)) for name, options in fieldsets]
        return [(name, options) for name, options in shown if options["fields"]]

    def _without_payload(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {
            **options,
            "fields": [name for name in options["fields"] if name not in self.payload_fields],
        }

    # --- the list -------------------------------------------------------------------------------
    # Shown for an empty list: where its rows come from.
    when_empty: ClassVar[str | Promise] = ""
    # And what to do then, beside adding a row.
    next_steps: ClassVar[Sequence[NextStep]] = ()
    when_no_history: ClassVar[str | Promise] = ""
    # Whether people call a row by its title; else by its label.
    is_called_by_title: ClassVar[bool] = True
    timeline_title: ClassVar[str | Promise] = _("History")
    # Whether its page is about what comes; the button *History* leads to what was, too.
    folds_history: ClassVar[bool] = False
    # The template that draws `head`.
    head_template: ClassVar[str] = "admin/includes/top_panels.html"

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[PlatformChangeList]:
        return PlatformChangeList

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        is_part = PART in request.GET
        if is_part:
            # Nothing below knows of it, so that no link of the rows has it.
            query = request.GET.copy()
            del query[PART]
            request.GET = query  # type: ignore[assignment]
            request.META["QUERY_STRING"] = query.urlencode()
        better = from_search_box(request.GET, self.list_filter) or tidied(request.GET)
        if better is not None:
            return HttpResponseRedirect(f"{request.path}?{better}")
        name = f"{self.opts.app_label}_{self.opts.model_name}"
        views = saved_views.views_of(request.user, name)
        usual = views_page.default_of(views, request.user)
        if usual is not None and not request.GET and request.method == "GET" and not is_part:
            return HttpResponseRedirect(f"{request.path}?{usual.query}")
        if ERROR_FLAG in request.GET:
            text = gettext("This list does not have the filters of that address; it shows all.")
            self.message_user(request, text, messages.WARNING)
        if names := unknown(self.list_columns, request.GET):
            text = gettext("This list has no column %s; choose from those under Columns.")
            self.message_user(request, text % repr(names[0][:80]), messages.WARNING)
        page: Any = super().changelist_view(request, extra_context)
        context = getattr(page, "context_data", None) or {}
        if "cl" in context:
            context.update(self.list_context(request, context["cl"]))
            context["next_steps"] = steps_for(request.user, self.next_steps)
            context["zone"] = page_zone()
            context["views"] = views_page.head(self, request, views)
            context["live_url"] = live_url(request, context["cl"])
            if is_part:
                # The page that this part renews has shown all messages.
                said: Any = get_messages(request)
                said._queued_messages.clear()
                page.template_name = "admin/includes/list_part.html"
            page.add_post_render_callback(_without_indents)
        return page  # type: ignore[no-any-return]

    @admin_display(description=_("Select record"))
    def action_checkbox(self, obj: Any) -> SafeString:
        return row_box(obj.pk)

    def get_list_display(self, request: HttpRequest) -> Any:
        picked = chosen_columns(self.list_columns, request.GET)
        return [each.shown for each in picked] or super().get_list_display(request)

    def list_context(self, request: HttpRequest, changelist: PlatformChangeList) -> dict[str, Any]:
        """The variables of the templates of the list, besides those of Django."""
        return {} if self.csv_pages is None else self.csv_pages(self).links(request)

    def tab_counts(self, request: HttpRequest, others: Mapping[str, str]) -> Mapping[str, int]:
        """How many rows the tabs have, by value, where that is cheap to count: up to one more than
        MAX_COUNTED of `list_head`. `others` are the other filters of the list."""
        return {}

    def get_paginator(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        per_page: int,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        if self.list_is_counted:
            return super().get_paginator(request, queryset, per_page, *args, **kwargs)
        return CountFreePaginator.of_request(request, queryset, per_page)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        return super().get_search_results(request, queryset, tidy_search(search_term))

    def get_actions(self, request: HttpRequest, action_location: Any = None) -> Any:
        """The actions of the list, see `list_actions`; {} on the page of a row."""
        if getattr(action_location, "name", "CHANGE_LIST") != "CHANGE_LIST":
            return {}
        return self.list_actions(request, super().get_actions(request))

    def list_actions(self, request: HttpRequest, found: dict[str, Any]) -> dict[str, Any]:
        """The found actions that the list offers this person."""
        return found

    def get_action_choices(
        self, request: HttpRequest, default_choices: Any = None, action_location: Any = None
    ) -> Any:
        # Leave out the location, which the theme does not know yet.
        return super().get_action_choices(request)

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *where: Any, **named: Any
    ) -> HttpResponse | None:
        selected = request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)
        if len(selected) > MAX_SELECTED:
            text = gettext("At most %(limit)d rows at once; %(count)d were selected.") % {
                "limit": MAX_SELECTED,
                "count": len(selected),
            }
            self.message_user(request, text, messages.WARNING)
            return None
        try:
            for pk in selected:
                actions.read_pk(self, pk)
        except ValidationError:
            text = gettext("What was selected are not rows of this list. Nothing was changed.")
            self.message_user(request, text, messages.WARNING)
            return None
        return super().response_action(request, queryset, *where, **named)

    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        """Load what the columns of one list page need, in one query for all rows."""

    # --- further pages ----------------------------------------------------------------------------
    def get_custom_urls(self) -> CustomUrls:
        csv = () if self.csv_pages is None else self.csv_pages(self).urls()
        act = ("act/<slug:name>/", self.url_name("act"), actions.act_view)
        views = ("views/", self.url_name("views"), views_page.views_page)
        return (act, views, *csv, *self.custom_urls)

    def url_name(self, page: str) -> str:
        """The name of one of this model's pages, without that of the site."""
        return f"{self.opts.app_label}_{self.opts.model_name}_{page}"

    def url(self, page: str, *args: object) -> str:
        """The address of one of this model's pages."""
        return reverse(f"{self.admin_site.name}:{self.url_name(page)}", args=args)

    def change_url(self, pk: int | str) -> str:
        """The address of the page of one row."""
        return self.url("change", quote(pk))

    def row_url(self, pk: int | str) -> str:
        """The address at which people look at one row: its page, unless another page says more."""
        return self.change_url(pk)

    def changelist_url(self) -> str:
        """The address of the list."""
        return self.url("changelist")

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        row = super().get_object(request, *args, **kwargs)
        if row is not None:
            self.prepare_row(request, row)
        return row

    def prepare_row(self, request: HttpRequest, row: Any) -> None:
        """Read what the page of the row shows besides."""

    def existing(self, request: HttpRequest, pk: object, *, may: str = "") -> Any:
        """The row of a page; PermissionDenied for those who may not `may` it, Http404 for none."""
        has_permission = getattr(self, f"has_{may}_permission") if may else None
        if has_permission is not None and not has_permission(request):
            raise PermissionDenied
        row = self.get_object(request, str(pk))
        if row is None:
            raise Http404(f"no {self.opts.model_name} {pk!r:.60}")
        if has_permission is not None and not has_permission(request, row):
            raise PermissionDenied
        return row

    def page(
        self, request: HttpRequest, template: str, *, status: int = 200, **context: Any
    ) -> TemplateResponse:
        """A page that Django's admin does not have; it needs a `title`."""
        return framed(request, template, status=status, opts=self.opts, **context)

    def row_label(self, row: Any) -> str:
        """The name of a row on confirm and report pages."""
        return str(row)

    # --- the page of a row ------------------------------------------------------------------------
    def _get_obj_does_not_exist_redirect(
        self, request: HttpRequest, opts: Any, object_id: str
    ) -> HttpResponse:
        # Django leads home, where nobody looks for what is missing.
        raise Http404(f"no {opts.model_name} {object_id!r:.60}")

    def buttons(self, request: HttpRequest, row: Any) -> list[Button]:
        """The buttons above the page of a row: the actions that its state allows."""
        return buttons(self, request, row)

    def page_context(self, request: HttpRequest, row: Any, form: Any) -> dict[str, Any]:
        """Further variables of the page of a row, which is None for a new one."""
        return {}

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        row = kwargs.get("obj")
        if row is not None:
            say_misshapen(self, request, row)
            context |= shared_out(self.buttons(request, row))
            context |= self.head(request, row)
            context["panels"] = self.panels(request, row)
            context["zone"] = page_zone()
        context |= self.page_context(request, row, context["adminform"].form)
        return super().render_change_form(request, context, *args, **kwargs)

    def head(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """The variables of the template of the top panels."""
        return {"top_panels": self.top_panels(request, row)}

    def top_panels(self, request: HttpRequest, row: Any) -> list[Panel]:
        """The panels above the fields of a row."""
        return []

    def panels(self, request: HttpRequest, row: Any) -> list[Panel]:
        """The panels below the fields of a row: its timeline, if any."""
        moments = self.timeline(request, row)
        if moments is None:
            return []
        history = render_timeline(moments, self.when_no_history)
        return [Panel(self.timeline_title, history, is_folded=self.folds_history)]

    # --- history --------------------------------------------------------------------------------
    def timeline(self, request: HttpRequest, row: Any) -> Sequence[Moment] | None:
        """The history of the row, oldest first; None leaves it to Django's own log."""
        return None

    def history_tabs(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """The `header_tabs` of a row whose history is one of its tabs; {} for other rows."""
        return {}

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        row = self.existing(request, unquote(object_id), may="view_or_change")
        moments = self.timeline(request, row)
        if moments is None:
            return super().history_view(request, object_id, extra_context)
        tabs = self.history_tabs(request, row)
        own: dict[str, Any] = {"header_tabs": tabs} if tabs else {}
        return self.page(
            request,
            "admin/timeline_page.html",
            title=gettext("History of %(row)s") % {"row": row},
            original=row,
            timeline=render_timeline(moments, self.when_no_history),
            back_url=self.change_url(row.pk),
            **own,
        )
