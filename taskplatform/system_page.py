"""The rare pages on one: what each is about, and what it says at the moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from axes.models import AccessAttempt
from django.apps import apps
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import get_language, gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.access.models import ApiClient
from apps.alerts.models import AlertRule, Channel, Delivery
from apps.common import clock
from apps.common.admin.display import label
from apps.common.admin.list_head import MAX_COUNTED, capped
from apps.common.admin.pages import framed
from apps.common.ttl_cache import TTLCache
from apps.common.zones import start_of_day
from apps.journal.models import Sink, SinkReject
from apps.reports.rules.capacity import NEVER
from apps.reports.services import fact_sheet
from apps.reports.services.capacity import capacity
from apps.reports.watches import WATCHES
from apps.reports.watches.base import look
from taskplatform.menu import Shown, Tab
from taskplatform.site import menu_of


class State(NamedTuple):
    """A few words, and the colour of their label."""

    text: str | Promise
    colour: str = ""


def _count(rows: QuerySet[Any]) -> int:
    return rows.order_by()[: MAX_COUNTED + 1].count()


def _number(rows: QuerySet[Any]) -> State:
    return State(capped(_count(rows)))


def _findings() -> State:
    sheet = fact_sheet.read()
    count = sum(len(look(each, sheet).findings) for each in WATCHES)
    if not count:
        return State(_("none"), "success")
    return State(ngettext_lazy("%d finding", "%d findings", count) % count, "warning")


def _room() -> State | None:
    days = capacity().days_left
    if days is None:
        return None
    if days == NEVER:
        return State(_("enough"), "success")
    text = ngettext_lazy("%d day left", "%d days left", int(days)) % int(days)
    return State(text, "warning" if days < 30 else "success")


def _channels() -> State:
    count = _count(Channel.objects.filter(enabled=True))
    return State(_("%d on") % count) if count else State(_("none set"), "danger")


def _rules() -> State:
    return State(_("%d on") % _count(AlertRule.objects.filter(enabled=True)))


def _midnight() -> Any:
    return start_of_day(timezone.localtime(clock.now()))


def _deliveries() -> State:
    count = _count(Delivery.objects.filter(created_at__gte=_midnight()))
    return State(_("%d today") % count)


def _refused() -> State | None:
    count = _count(AccessAttempt.objects.filter(attempt_time__gte=_midnight()))
    return State(_("%d today") % count, "warning") if count else None


def _sinks() -> State:
    rows = Sink.objects.all()
    if not (count := _count(rows)):
        return State(_("off"))
    if _count(rows.filter(failures__gt=0)):
        return State(_("not delivered"), "danger")
    return State(_("%d on") % count, "success")


# The subject of each page and its state, by its address or the list of its model.
PAGES: Mapping[str, tuple[str | Promise, Callable[[], State | None] | None]] = {
    "governance": (_("What goes wrong slowly"), _findings),
    "capacity": (_("Room left in the tables, and how fast they grow"), _room),
    "audit": (_("Whether every stored row keeps what is promised"), None),
    "alerts.channel": (_("Where alerts go: chat, webhook or mail"), _channels),
    "alerts.alertrule": (_("When somebody is told"), _rules),
    "alerts.delivery": (_("What was sent, and the answer"), _deliveries),
    "access.apiclient": (
        _("Programs and groups that may call"),
        lambda: _number(ApiClient.objects.filter(revoked_at=None)),
    ),
    "auth.user": (
        _("Colleagues, what they see and may do"),
        lambda: _number(User.objects.filter(is_active=True)),
    ),
    "auth.group": (_("What each role may do"), None),
    "axes.accesslog": (_("Who came in"), None),
    "axes.accessattempt": (_("Who was refused; a closed name is opened here"), _refused),
    "journal.sink": (_("Send the activity log to another system"), _sinks),
    "journal.sinkreject": (
        _("What another system did not take"),
        lambda: _number(SinkReject.objects.all()),
    ),
}
# A state by its page and by the language and the day of who asks: words are said at once.
states: TTLCache[State | None] = TTLCache(60.0)


def system(request: HttpRequest) -> HttpResponse:
    """The boxes of the pages that this person may see."""
    menu = menu_of(request)
    if not menu.system:
        raise PermissionDenied
    return framed(
        request,
        "admin/system.html",
        title=_("System"),
        boxes=[_box(each) for each in menu.system],
    )


def _box(entry: Shown) -> dict[str, Any]:
    return {
        "title": entry.title,
        "icon": entry.icon,
        "pages": [_page(tab) for tab in entry.tabs],
    }


def _page(tab: Tab) -> dict[str, Any]:
    about, read = PAGES[tab.key]
    here = (get_language(), timezone.get_current_timezone_name(), timezone.localdate())
    state = read and states.get((tab.key, *here), read)
    return {
        "title": tab.title,
        "link": tab.link,
        "add": tab.add,
        "add_words": tab.add and gettext("Add %s") % apps.get_model(tab.key)._meta.verbose_name,
        "about": about,
        "state": state and label(state.text, state.colour),
    }
