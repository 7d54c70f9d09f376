"""Two watches: the alerts that fire, and rules without an enabled channel. Whoever looks at the
home page sees these troubles first."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db.models import Case, Q, Value, When
from django.urls import reverse
from django.utils import timezone

from apps.alerts.models import Alert, AlertRule, Channel
from apps.alerts.services.alerts import snooze
from apps.alerts.services.settings import rules_without_channel
from apps.common.admin.html import list_url, page_url
from apps.common.db import fetch, table
from apps.common.errors import NotFound
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.zones import start_of_day
from apps.jobs.rules.transitions import FAILED, READY
from apps.reports.services.fact_sheet import FactSheet
from apps.reports.watches.base import ADVICE, CRITICAL, MAX_FOUND, WARNING, Reading, Watch
from apps.reports.watches.jobs import BACKLOG_GROWTH, FAILURE_RATE, OLDEST_DUE
from apps.reports.watches.plans import QUOTA_UNFILLED, WILL_NOT_FILL
from apps.reports.watches.subjects import JOB_TYPE, WAYS, Way

ALERT, UNHEARD = "alert", "unheard"
# The jobs that a rule of the kind is about.
_STATUS = {FAILURE_RATE.key: FAILED, OLDEST_DUE.key: READY, BACKLOG_GROWTH.key: READY}
_CRITICAL = AlertRule.Severity.CRITICAL
# Alerts of today that are counted, and rules that are named.
_MAX_COUNTED, _MAX_NAMED = 1_000, 3


def sentence_of(alert: Alert) -> Message:
    """The sentence that says what is wrong, with its numbers."""
    rule, kind = alert.rule, alert.subject.partition(":")[0]
    found = rule.watch.say(kind, alert.name, alert.value, rule.limit)
    return found or _("{name} was wrong when the rule was of another kind.", name=alert.name)


def _firing(sheet: FactSheet) -> Iterator[Reading]:
    """Critical alerts first, then the newest ones; snoozed alerts at the end."""
    snoozed = Q(snoozed_until__gt=sheet.now)
    worst = Case(When(rule__severity=_CRITICAL, then=Value(0)), default=Value(1))
    is_put_off = Case(When(snoozed, then=Value(1)), default=Value(0))
    found = Alert.objects.filter(resolved_at=None, fired_at__isnull=False).select_related("rule")
    order = (is_put_off, worst, "-fired_at", "-pk")
    alerts = list(found.order_by(*order)[:MAX_FOUND])
    now = _read_now(alerts, sheet)
    for alert in alerts:
        yield _reading(alert, now.get((alert.rule.kind, alert.subject)), sheet.now)


def _read_now(alerts: list[Alert], sheet: FactSheet) -> dict[tuple[str, str], Reading]:
    """The readings of the watches of these alerts at the moment; the facts are read already."""
    watches = {alert.rule.kind: alert.rule.watch for alert in alerts}
    wanted = {(alert.rule.kind, alert.subject) for alert in alerts}
    return {
        (kind, each.subject): each
        for kind, watch in watches.items()
        for each in watch.read(sheet)
        if (kind, each.subject) in wanted
    }


def _reading(alert: Alert, read: Reading | None, now: datetime) -> Reading:
    rule, since = alert.rule, alert.fired_at or alert.since
    kind, _colon, name = alert.subject.partition(":")
    is_wrong = read is not None and read.value is not None and rule.limit.is_passed(read.value)
    text = _("{rule}: {text}", rule=rule.name, text=sentence_of(alert))
    if read is not None and is_wrong and read.facts:
        text = rule.watch.say_now(read, alert.name, rule.limit) or text
    why = _("began {since}", since=since)
    if read is not None and read.why:
        why = _("{reason} · {more}", reason=read.why, more=why)
    if alert.notified_at is None:
        why = _("{reason} · {more}", reason=why, more=_("told nobody"))
    covered = [(rule.kind, alert.subject)]
    if rule.kind == QUOTA_UNFILLED.key:
        covered.append((WILL_NOT_FILL.key, alert.subject))
    return Reading(
        ALERT,
        str(alert.pk),
        text=text,
        why=why,
        since=since,
        severity=CRITICAL if rule.severity == _CRITICAL else WARNING,
        icon=rule.watch.icon,
        via=(read.via if read is not None else None) or rows_of(rule.kind, kind, name),
        instead=covered,
        snoozed_until=alert.snoozed_until if alert.is_snoozed(now) else None,
    )


def rows_of(watch: str, kind: str, name: str) -> Way | None:
    """The rows that made an alert: the jobs of the type, or the page of what it is about."""
    if watch in _STATUS and kind == JOB_TYPE:
        url = list_url("jobs_job", type=name, status=_STATUS[watch])
        return Way("jobs.view_job", _("See the jobs"), lambda *_of: url)
    if kind not in WAYS:
        return None
    first = WAYS[kind][0]
    return first._replace(url=lambda *_of: first.url(name, None))


def _nobody(sheet: FactSheet) -> Iterator[Reading]:
    rules = list(
        rules_without_channel().order_by("name").values_list("name", flat=True)[: MAX_FOUND + 1]
    )
    if not rules:
        return
    today = start_of_day(timezone.localtime(sheet.now))
    has_channel, count = _channel_and_alerts(today)
    if not has_channel:
        why = _("Alerts that fired today and were seen on this page only: {count}", count=count)
        add = Way("alerts.add_channel", _("Add channel"), lambda *_of: reverse(_ADD_CHANNEL))
        text = _("Alerts reach nobody: no channel is set")
        yield Reading(UNHEARD, "channels", text=text, why=why, via=add)
        return
    named = " · ".join(rules[:_MAX_NAMED])
    yield Reading(
        UNHEARD,
        "rules",
        text=_("Alert rules without a channel notify nobody: {count}", count=len(rules)),
        why=f"{named} · …" if len(rules) > _MAX_NAMED else named,
        via=Way(
            "alerts.view_alertrule",
            _("Alert rules"),
            lambda *_of: list_url("alerts_alertrule"),
        ),
    )


def _channel_and_alerts(since: datetime) -> tuple[bool, int]:
    """Whether a channel is enabled, and how many alerts have fired since, up to a limit."""
    [(is_there, count)] = fetch(
        f"SELECT EXISTS (SELECT 1 FROM {table(Channel)} WHERE enabled), (SELECT COUNT(*) FROM "
        f"(SELECT 1 FROM {table(Alert)} WHERE fired_at >= %s LIMIT {_MAX_COUNTED:d}) fired)",
        [since],
    )
    return bool(is_there), count


def _snooze(name: str, time: timedelta, actor: str) -> None:
    alert = Alert.objects.filter(pk=name).first()
    if alert is None:
        raise NotFound(_("The alert does not exist any more."))
    snooze(alert=alert, time=time, actor=actor, reason="")


_ADD_CHANNEL = "admin:alerts_channel_add"
FIRING = Watch(
    key="alerts",
    title=_("No alert fires"),
    read=_firing,
    leads={
        ALERT: Way(
            "alerts.view_alert",
            _("Open the alert"),
            lambda name, _row: page_url("alerts_alert", name),
        )
    },
    severity=WARNING,
    snooze=_snooze,
)
NOBODY_NOTIFIED = Watch(
    key="unheard",
    title=_("Alerts reach somebody"),
    read=_nobody,
    leads={
        UNHEARD: Way("alerts.view_channel", _("Channels"), lambda *_of: list_url("alerts_channel"))
    },
    severity=ADVICE,
    icon="notifications_off",
)
