"""The admin site: login, menu and home page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from axes.helpers import get_cool_off
from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.common.preferences import has_shortcuts
from apps.reports.permissions import may_govern, may_report, may_see_failures
from taskplatform import search, sign_ins
from taskplatform.audit import may_audit

if TYPE_CHECKING:
    # unfold has no types; its classes are Django's with more templates.
    from django.contrib.admin import AdminSite
else:
    from unfold.sites import UnfoldAdminSite as AdminSite

AUDIT_URL = "audit"


@dataclass(frozen=True)
class Box:
    """One part of the platform on the home page and in the menu: a title and the apps in it."""

    title: str | Promise
    apps: tuple[str, ...]


BOXES = (
    Box(_("Dispatch"), ("dispatch",)),
    Box(_("Jobs"), ("jobs", "schedules", "bulk")),
    Box(_("Alerts"), ("alerts",)),
    Box(_("Journal"), ("journal",)),
    Box(_("Access"), ("access",)),
    Box(_("People"), ("auth", "axes")),
)
# The icons of the models, in their order inside a box; other models come last, by name.
ICONS = {
    "dispatch.oncetask": "task_alt",
    "dispatch.rotatetask": "autorenew",
    "dispatch.dispatch": "outbox",
    "dispatch.archiveddispatch": "inventory_2",
    "dispatch.archivedtask": "inventory",
    "dispatch.executor": "badge",
    "dispatch.template": "schema",
    "jobs.job": "work_history",
    "jobs.archivedjob": "inventory_2",
    "jobs.jobtype": "category",
    "jobs.worker": "memory",
    "schedules.schedule": "event_repeat",
    "alerts.alert": "notifications_active",
    "alerts.alertrule": "rule",
    "alerts.reportplan": "event_note",
    "alerts.channel": "campaign",
    "alerts.delivery": "send",
    "bulk.bulkrun": "dynamic_feed",
    "journal.journalentry": "history",
    "journal.sink": "output",
    "journal.sinkreject": "block",
    "access.apiclient": "key",
    "auth.user": "person",
    "auth.group": "group",
    "axes.accessattempt": "lock",
    "axes.accesslog": "login",
}
OTHER_ICON = "database"
# Pages by the key that leads there after a g, and what other keys do: static/taskplatform/keys.js.
PLACES = {
    "o": "admin:index",
    "j": "admin:jobs_job_changelist",
    "d": "admin:dispatch_dispatch_changelist",
    "t": "admin:dispatch_oncetask_changelist",
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
# Where the list of models is kept, on the request.
APP_LIST = "_platform_app_list"


class PlatformAdminSite(AdminSite):
    """The boxes of the platform as menu and home page, limited to what a person may see."""

    index_title = _("Home")
    empty_value_display = "–"

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> Any:
        """Made once for each request: the menu and the frame of Django both need it."""
        if app_label is not None:
            return super().get_app_list(request, app_label)
        found = getattr(request, APP_LIST, None)
        if found is None:
            found = super().get_app_list(request)
            setattr(request, APP_LIST, found)
        return found

    def boxes(self, request: HttpRequest) -> list[dict[str, Any]]:
        """The boxes with the models that this person may see; further apps follow, one box each."""
        apps = {app["app_label"]: app for app in self.get_app_list(request)}
        boxes = [*BOXES]
        known = {label for box in BOXES for label in box.apps}
        boxes += [Box(app["name"], (label,)) for label, app in apps.items() if label not in known]
        drawn = [
            {
                "title": box.title,
                "models": [
                    {**model, "icon": ICONS.get(self._label(model), OTHER_ICON)}
                    for label in box.apps
                    if label in apps
                    for model in sorted(apps[label]["models"], key=self._rank)
                ],
            }
            for box in boxes
        ]
        return [box for box in drawn if box["models"]]

    @staticmethod
    def _label(model: dict[str, Any]) -> str:
        return str(model["model"]._meta.label_lower)

    def _rank(self, model: dict[str, Any]) -> tuple[int, str]:
        order = list(ICONS)
        label = self._label(model)
        return (order.index(label) if label in order else len(order), str(model["name"]))

    def each_context(self, request: HttpRequest) -> Any:
        context = super().each_context(request)
        if (menu := context["sidebar_navigation"]) and has_shortcuts(request):
            context["shortcuts"] = {"places": _places(menu), "acts": KEYS}
        return context

    def index(self, request: HttpRequest, extra_context: Any = None) -> Any:
        # Imported late, because the admin classes register with this site.
        from apps.reports.admin.overview.page import OVERVIEW_URL, overview

        context = {
            "boxes": self.boxes(request),
            "overview": overview(request),
            "overview_url": reverse(OVERVIEW_URL),
            "is_fullwidth": "1",
        }
        return super().index(request, {**context, **(extra_context or {})})

    def login(self, request: HttpRequest, extra_context: Any = None) -> Any:
        if request.method != "POST":
            return super().login(request, extra_context)
        sign_ins.check_size(request)
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
        term = search.Term.read(request.GET.get("term", ""))
        groups = search.find(request, term)
        if (pages := search.pages_named(navigation(request), term)) is not None:
            groups.append(pages)
        hits = [hit for group in groups for hit in group.hits]
        if len(hits) == 1 and not hits[0].acts:
            return HttpResponseRedirect(hits[0].url)
        request.current_app = self.name
        context = {
            **self.each_context(request),
            "title": _("Search"),
            "subtitle": None,
            "term": term.text,
            "groups": groups,
            "max_jobs": f"{search.MAX_JOBS:,}",
            "max_tasks": f"{search.MAX_TASKS:,}",
            "max_entries": f"{search.MAX_ENTRIES:,}",
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/search.html", context)


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """The menu in the format of the theme."""
    site = admin.site
    assert isinstance(site, PlatformAdminSite)  # noqa: S101
    groups: list[dict[str, Any]] = []
    activity: list[dict[str, Any]] = []
    if may_report(request.user):
        activity.append({"title": _("Reports"), "icon": "monitoring", "link": reverse("report")})
    if may_see_failures(request.user):
        activity.append({"title": _("Failures"), "icon": "error", "link": reverse("failures")})
    if activity:
        groups.append({"title": _("Activity"), "separator": True, "items": activity})
    groups += [
        {
            "title": box["title"],
            "separator": True,
            "items": [
                {"title": model["name"], "icon": model["icon"], "link": model["admin_url"]}
                for model in box["models"]
            ],
        }
        for box in site.boxes(request)
    ]
    system: list[dict[str, Any]] = []
    if may_govern(request.user):
        system.append({"title": _("Capacity"), "icon": "data_usage", "link": reverse("capacity")})
        system.append({"title": _("Governance"), "icon": "rule", "link": reverse("governance")})
    if may_audit(request.user):
        system.append({"title": _("Audit"), "icon": "fact_check", "link": reverse(AUDIT_URL)})
    if system:
        groups.append({"title": _("System"), "separator": True, "items": system})
    return groups


def _places(menu: list[dict[str, Any]]) -> list[tuple[tuple[str, str], str | Promise, str]]:
    """The pages of the menu to which keys lead: the keys, the title and the address of each."""
    titles = {str(item["link"]): item["title"] for group in menu for item in group["items"]}
    titles[reverse("admin:index")] = _("Overview")
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
