"""The menu: a few entries in groups, and the pages of each as tabs beside its title.

Every page that people look for has its place here; the menu, the tabs, the keys that lead to pages
and the search of everything read it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from django.apps import apps
from django.contrib import admin
from django.http import HttpRequest
from django.urls import get_script_prefix, reverse
from django.utils.functional import Promise, cached_property
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from apps.reports.permissions import may_govern, may_report, may_see_failures, may_see_problems
from taskplatform import badges
from taskplatform.audit import may_audit

Words = str | Promise
HOME, SYSTEM_URL = "admin:index", "system"


@dataclass(frozen=True)
class Place:
    """A page: the list of a model, or the page with the address of that name.

    It is for those who see the rows of the model, and whom `may` lets in. `also` is another name
    that people know it by; `was` are earlier ones, which are found and not shown.
    """

    title: Words
    model: str = ""
    url: str = ""
    query: str = ""
    may: Callable[[Any], bool] | None = None
    also: Words = ""
    was: str = ""


@dataclass(frozen=True)
class Entry:
    """An entry of the menu; it leads to the first of its places that the person may see. `badge` is
    the name of the number beside it."""

    title: Words
    icon: str
    places: tuple[Place, ...]
    badge: str = ""


@dataclass(frozen=True)
class Group:
    title: Words
    entries: tuple[Entry, ...]


_OLDER = _("Older")
_PROBLEMS = Entry(
    _("Problems"),
    "error",
    (
        Place(
            pgettext_lazy("problems", "Inbox"),
            url="problems",
            may=may_see_problems,
            also=_("Problems"),
        ),
        Place(_("Failures"), url="failures", may=may_see_failures),
        Place(_("Alerts"), "alerts.alert"),
    ),
    badge=badges.PROBLEMS,
)
_REPORTS = Entry(
    _("Reports"),
    "monitoring",
    (
        Place(_("Reports"), url="report", may=may_report),
        Place(_("Sent regularly"), "alerts.reportplan"),
    ),
)
_TASKS = Entry(
    _("Tasks"),
    "task_alt",
    (
        Place(pgettext_lazy("tasks", "Once"), "dispatch.oncetask"),
        Place(pgettext_lazy("tasks", "Repeating"), "dispatch.rotatetask", was="Rotations 周期任务"),
        Place(_("Templates"), "dispatch.template"),
        Place(_OLDER, "dispatch.archivedtask", was="Archive of tasks 任务归档"),
    ),
)
_FLOWS = Entry(
    _("Flows"),
    "account_tree",
    (Place(_("Flows"), "flows.flow"), Place(_("Runs"), "flows.flowrun")),
)
_DISPATCHES = Entry(
    _("Dispatches"),
    "outbox",
    (
        Place(_("Dispatches"), "dispatch.dispatch"),
        Place(_OLDER, "dispatch.archiveddispatch", was="Archive of dispatches 派发归档"),
    ),
    badge=badges.DISPATCHES,
)
_PEOPLE = Entry(
    _("People"),
    "badge",
    (
        Place(_("People"), "dispatch.executor", query="kind=user", was="Executors 执行者"),
        Place(pgettext_lazy("menu", "Groups"), "dispatch.executor", query="kind=group"),
    ),
    badge=badges.PEOPLE,
)
_JOBS = Entry(
    _("Jobs"),
    "work_history",
    (
        Place(_("Jobs"), "jobs.job"),
        Place(_("Types"), "jobs.jobtype"),
        Place(_("Handlers"), "jobs.jobtype", url="admin:jobs_jobtype_handlers"),
        Place(_("Inbox"), "jobs.inboxrow"),
        Place(_OLDER, "jobs.archivedjob", was="Archive 归档"),
    ),
    badge=badges.JOBS,
)
_WORKERS = Entry(
    _("Workers"),
    "memory",
    (
        Place(_("Workers"), "jobs.worker"),
        Place(_("Pools"), "jobs.jobtype", url="admin:jobs_jobtype_pools"),
        Place(_("Slices"), "jobs.worker", url="admin:jobs_worker_slices"),
        Place("asyncflow", "jobs.worker", url="asyncflow"),
    ),
    badge=badges.WORKERS,
)
_ACTIVITY = Entry(
    _("Activity"),
    "history",
    (
        Place(pgettext_lazy("entries of the journal", "All"), "journal.journalentry"),
        Place(_("By people"), "journal.journalentry", url="activity"),
        Place(_("Bulk runs"), "bulk.bulkrun"),
    ),
)
# The rare pages, a box each on the page of the system.
SYSTEM = (
    Entry(
        _("Health"),
        "ecg_heart",
        (
            Place(_("Checks"), url="governance", may=may_govern, also=_("Governance")),
            Place(_("Capacity"), url="capacity", may=may_govern),
            Place(_("Consistency"), url="audit", may=may_audit, also=_("Audit")),
        ),
    ),
    Entry(
        _("Alerting"),
        "notifications",
        (
            Place(_("Channels"), "alerts.channel"),
            Place(_("Alert rules"), "alerts.alertrule"),
            Place(_("Deliveries"), "alerts.delivery"),
        ),
    ),
    Entry(
        _("Access"),
        "key",
        (
            Place(_("API keys"), "access.apiclient"),
            Place(_("Accounts"), "auth.user"),
            Place(_("Roles"), "auth.group"),
            Place(_("Sign-ins"), "axes.accesslog"),
            Place(_("Refused sign-ins"), "axes.accessattempt"),
        ),
    ),
    Entry(
        _("Export"),
        "output",
        (
            Place(_("Sinks"), "journal.sink"),
            Place(_("Refused entries"), "journal.sinkreject"),
        ),
    ),
)
GROUPS = (
    Group("", (Entry(_("Home"), "home", (Place(_("Home"), url=HOME),)), _PROBLEMS, _REPORTS)),
    Group(
        _("Plan"),
        (
            _TASKS,
            _FLOWS,
            Entry(_("Schedules"), "event_repeat", (Place("", "schedules.schedule"),)),
        ),
    ),
    Group(pgettext_lazy("menu", "Work"), (_DISPATCHES, _PEOPLE, _JOBS, _WORKERS)),
    Group(
        _("Platform"),
        (_ACTIVITY, Entry(_("System"), "settings", (Place(_("System"), url=SYSTEM_URL),))),
    ),
)


class Tab(NamedTuple):
    """A page that the person may see: its title as a tab, the name of what is on it, its model or
    the name of its address, and the form for a new row where the person may add one."""

    title: Words
    name: Words
    link: str
    key: str
    was: str = ""
    add: str = ""

    @property
    def path(self) -> str:
        """The link without its query."""
        return self.link.partition("?")[0]

    @property
    def words(self) -> str:
        """The name, after the title where that says something else: `Checks · Governance`."""
        title, name = capfirst(str(self.title)), capfirst(str(self.name))
        return name if title.casefold() in name.casefold() else f"{title} · {name}"


class Shown(NamedTuple):
    """An entry with those of its pages that the person may see."""

    title: Words
    icon: str
    tabs: tuple[Tab, ...]
    badge: str = ""


class _List(NamedTuple):
    """The list of the rows of a model, and the form for a new one where the person may add it."""

    label: str
    name: Words
    link: str
    add: str


def _lists(request: HttpRequest) -> Iterator[_List]:
    """The lists that the person may see: those who may only add rows have none.

    The list of apps of Django asks for four rights of each model, and takes a tenth of a page.
    """
    for model, model_admin in admin.site._registry.items():
        if model_admin.has_view_or_change_permission(request):
            meta = model._meta
            page = f"admin:{meta.app_label}_{meta.model_name}"
            add = _url(f"{page}_add") if model_admin.has_add_permission(request) else ""
            name = capfirst(meta.verbose_name_plural or "")
            yield _List(meta.label_lower, name, _url(f"{page}_changelist"), add)


def _url(name: str) -> str:
    return _reversed(name, get_script_prefix())


@functools.cache
def _reversed(name: str, _prefix: str) -> str:
    """The address of that name below the prefix of this request: Django takes long to find it."""
    return reverse(name)


def _by_app(lists: Iterable[_List]) -> list[tuple[str, list[_List]]]:
    """The lists with the name of their app, both in the order of the letters."""
    found: dict[str, list[_List]] = {}
    for each in sorted(lists, key=lambda each: str(each.name).lower()):
        app = apps.get_app_config(each.label.partition(".")[0])
        found.setdefault(str(app.verbose_name), []).append(each)
    return sorted(found.items(), key=lambda group: group[0].lower())


class Menu:
    """The part of the menu that one person sees."""

    def __init__(self, request: HttpRequest) -> None:
        self._user = request.user
        self._path = request.path
        self._query = request.GET
        self._models = {each.label: each for each in _lists(request)}
        self.system = [*self._shown(SYSTEM)]
        self.groups = [
            (group.title, shown) for group in GROUPS if (shown := [*self._shown(group.entries)])
        ]
        known = {place.model for entry in _entries() for place in entry.places}
        self.others = _by_app(each for label, each in self._models.items() if label not in known)

    def _shown(self, entries: tuple[Entry, ...]) -> Iterator[Shown]:
        for entry in entries:
            if tabs := tuple(self._tab(place) for place in entry.places if self._sees(place)):
                yield Shown(entry.title, entry.icon, tabs, entry.badge)

    def _sees(self, place: Place) -> bool:
        if place.url == SYSTEM_URL:
            return bool(self.system)
        is_listed = not place.model or place.model in self._models
        return is_listed and (place.may is None or place.may(self._user))

    def _tab(self, place: Place) -> Tab:
        if place.url:
            return Tab(place.title, place.also or place.title, _url(place.url), place.url)
        model = self._models[place.model]
        link = model.link
        if place.query:
            link = f"{link}?{place.query}"
            return Tab(place.title, place.title, link, place.model, place.was)
        title = place.title or model.name
        return Tab(title, model.name, link, place.model, place.was, model.add)

    @property
    def _entries(self) -> list[Shown]:
        return [entry for _title, entries in self.groups for entry in entries]

    @cached_property
    def tabs(self) -> list[Tab]:
        """Every page of the menu."""
        found = [tab for entry in (*self._entries, *self.system) for tab in entry.tabs]
        return found + [
            Tab(each.name, each.name, each.link, "")
            for _title, models in self.others
            for each in models
        ]

    @cached_property
    def _here(self) -> str:
        """The address of the page of the menu that this one belongs to, the longest of several."""
        home = _url(HOME)
        paths = {tab.path for tab in self.tabs}
        above = (each for each in paths if each != home and self._path.startswith(each))
        return max(above, key=len, default=home if self._path == home else "")

    def is_here(self, entry: Shown) -> bool:
        """Whether the page belongs to the entry."""
        boxes = self.system if entry.tabs[0].key == SYSTEM_URL else []
        return any(tab.path == self._here for each in (entry, *boxes) for tab in each.tabs)

    @property
    def here(self) -> Shown | None:
        """The entry or the box of the system that the page itself is a tab of, if there are
        several."""
        for entry in (*self._entries, *self.system):
            if len(entry.tabs) > 1 and self._path in {tab.path for tab in entry.tabs}:
                return entry
        return None

    def is_open(self, tab: Tab) -> bool:
        """Whether the page is this one."""
        wanted = dict(parse_qsl(tab.link.partition("?")[2]))
        return self._path == tab.path and all(self._query.get(n) == v for n, v in wanted.items())


def _entries() -> Iterator[Entry]:
    yield from SYSTEM
    for group in GROUPS:
        yield from group.entries
