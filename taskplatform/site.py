"""The admin site: login, menu and home page."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from axes.helpers import get_cool_off
from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.functional import Promise, SimpleLazyObject
from django.utils.translation import gettext_lazy as _

from apps.common.admin.pages import framed
from apps.common.preferences import has_shortcuts
from taskplatform import badges, palette, search, search_kinds, sign_ins
from taskplatform.menu import Menu, Shown

if TYPE_CHECKING:
    # unfold has no types; its classes are Django's with more templates.
    from django.contrib.admin import AdminSite
else:
    from unfold.sites import UnfoldAdminSite as AdminSite

AUDIT_URL, SIGNED_IN_URL = "audit", "signed_in"


# Pages by the key that leads there after a g, and what other keys do: static/taskplatform/keys.js.
PLACES = {
    "o": "admin:index",
    "j": "admin:jobs_job_changelist",
    "d": "admin:dispatch_dispatch_changelist",
    "t": "admin:dispatch_oncetask_changelist",
    "l": "admin:flows_flow_changelist",
    "w": "admin:jobs_worker_changelist",
    "f": "failures",
    "r": "report",
}
KEYS = (
    (("j", "k"), _("Next row, previous row")),
    (("x",), _("Select the row")),
    (("Enter",), _("Open the row")),
    (("r",), _("Retry, on the page of a job")),
    (("/",), _("Search the list")),
    (("Ctrl K",), _("Search everything")),
    (("?",), _("Show this list")),
    (("Esc",), _("Close this list")),
)
# Where the menu is kept, on the request.
MENU = "_platform_menu"
OTHER_ICON = "database"


class PlatformAdminSite(AdminSite):
    """The boxes of the platform as menu and home page, limited to what a person may see."""

    index_title = _("Home")
    empty_value_display = "–"

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> Any:
        """Made when a page shows it: the menu of the platform is another."""
        return SimpleLazyObject(partial(super().get_app_list, request, app_label))

    def each_context(self, request: HttpRequest) -> Any:
        context = super().each_context(request)
        if context["sidebar_navigation"]:
            # Imported late, because the admin classes register with this site.
            from apps.bulk.admin.undo_page import bar

            menu = menu_of(request)
            context["undo_bar"] = bar(request)
            context["header_tabs"] = menu.here and _drawn(menu, menu.here)
            if has_shortcuts(request):
                context["shortcuts"] = {"places": _places(menu), "acts": KEYS}
        return context

    def index(self, request: HttpRequest, extra_context: Any = None) -> Any:
        # Imported late, because the admin classes register with this site.
        from apps.reports.admin.overview.chart import HOURS, hours_of
        from apps.reports.admin.overview.page import OVERVIEW_URL, overview

        context = {
            "menu": menu_of(request),
            "overview": overview(request),
            "overview_url": reverse(OVERVIEW_URL),
            "overview_hours": hours_of(request.GET.get(HOURS, "")),
            "is_fullwidth": "1",
        }
        return super().index(request, {**context, **(extra_context or {})})

    def login(self, request: HttpRequest, extra_context: Any = None) -> Any:
        if request.method != "POST":
            return super().login(request, extra_context)
        response = super().login(request, extra_context)
        if request.user.is_authenticated:
            sign_ins.remember(request, response)
        return response

    def password_change(self, request: HttpRequest, extra_context: Any = None) -> Any:
        if request.method == "POST":
            # The form asks for the old password, which somebody at an open screen might guess.
            sign_ins.count_own_password(request.user)
        return super().password_change(request, extra_context)

    def search(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """The page of a single hit, else a list of hits by kind."""
        if request.GET.get("part") == "hits":
            found = palette.find_options(
                request, request.GET.get("term", ""), menu_of(request).tabs
            )
            return TemplateResponse(request, "admin/includes/palette_hits.html", {"groups": found})
        term = search.Term.read(request.GET.get("term", ""))
        groups = search.find(request, term)
        if (pages := search.pages_named(menu_of(request).tabs, term)) is not None:
            groups.append(pages)
        hits = [hit for group in groups for hit in group.hits]
        if len(hits) == 1 and not hits[0].acts:
            return HttpResponseRedirect(hits[0].url)
        return framed(
            request,
            "admin/search.html",
            title=_("Search"),
            term=term.text,
            groups=groups,
            max_jobs=f"{search_kinds.MAX_JOBS:,}",
            max_tasks=f"{search_kinds.MAX_TASKS:,}",
            max_entries=f"{search_kinds.MAX_ENTRIES:,}",
            **(extra_context or {}),
        )


def signed_in(request: HttpRequest) -> HttpResponse:
    """The account, and the token of its forms, for pages that have been open for long."""
    return JsonResponse({"account": str(request.user.pk), "token": get_token(request)})


def menu_of(request: HttpRequest) -> Menu:
    """The menu of the person, made once for each request."""
    found: Menu | None = getattr(request, MENU, None)
    if found is None:
        found = Menu(request)
        setattr(request, MENU, found)
    return found


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """The menu in the format of the theme."""
    menu = menu_of(request)
    numbers = badges.badges(request.user)
    groups = [
        {
            "title": title,
            "items": [
                {
                    "title": entry.title,
                    "icon": entry.icon,
                    "link": entry.tabs[0].link,
                    "active": menu.is_here(entry),
                    "badge": numbers.get(entry.badge),
                }
                for entry in entries
            ],
        }
        for title, entries in menu.groups
    ]
    others = [
        {
            "title": title,
            "items": [
                {"title": each.name, "icon": OTHER_ICON, "link": each.link} for each in models
            ],
        }
        for title, models in menu.others
    ]
    return [*groups, *others]


def _drawn(menu: Menu, entry: Shown) -> dict[str, Any]:
    """The tabs of the page beside its title."""
    tabs = [(tab.title, tab.link, menu.is_open(tab)) for tab in entry.tabs]
    return {"title": entry.title, "tabs": tabs}


def _places(menu: Menu) -> list[tuple[tuple[str, str], str | Promise, str]]:
    """The pages of the menu to which keys lead: the keys, the title and the address of each."""
    titles = {tab.link: tab.name for tab in menu.tabs}
    urls = {key: reverse(name) for key, name in PLACES.items()}
    return [(("g", key), titles[url], url) for key, url in urls.items() if url in titles]


def locked_out(request: HttpRequest, response: Any = None, credentials: Any = None) -> HttpResponse:
    """The answer while a name is locked for an address: 429 with the waiting time."""
    wait = get_cool_off(request)
    seconds = int(wait.total_seconds()) if wait else 0
    context = {**admin.site.each_context(request), "minutes": -(-seconds // 60)}
    page = render(request, "admin/locked_out.html", context, status=429)
    if seconds:
        page["Retry-After"] = str(seconds)
    return page
