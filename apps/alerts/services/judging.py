"""The round that judges every rule and notifies people of what changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from django.db.models import QuerySet

from apps.alerts.models import Alert, AlertRule, Event
from apps.alerts.rules import judge as rules
from apps.alerts.services.notify import notify
from apps.common import clock
from apps.common.db import apart, transactional
from apps.reports.services.fact_sheet import FactSheet, current_sheet
from apps.reports.watches import UNKNOWN
from apps.reports.watches.base import Reading

# Subjects that one rule opens alerts for.
MAX_OPEN = 200


def evaluate(broken: dict[str, str] | None = None) -> Counter[str]:
    """Judge all rules and make the deliveries; returns the number of each verdict, and of the
    messages as `sent`. Puts the rules that cannot be judged into `broken`: number and error."""
    sheet = current_sheet()
    found: Counter[str] = Counter()
    rules_on = list(AlertRule.objects.filter(enabled=True).order_by("pk"))
    with_open = {*_open().order_by().values_list("rule", flat=True).distinct()}
    for rule in rules_on:
        with apart(f"alert rule {rule.pk}") as tried:
            found += _judged(rule, sheet, has_open=rule.pk in with_open)
        if tried.error and broken is not None:
            broken[str(rule.pk)] = tried.error
    if with_open - {rule.pk for rule in rules_on}:
        with apart("alerts of rules that are off"):
            found += _closed()
    found["sent"] = notify(now=clock.now())
    return +found


def _open() -> QuerySet[Alert]:
    return Alert.objects.filter(resolved_at=None)


def judged_now(rule: AlertRule) -> list[tuple[str, float, bool]]:
    """Judge the readings of the rule now: subject, value, and whether the value is wrong."""
    return [
        (subject, each.value, rule.limit.is_passed(each.value))
        for subject, each in readings(rule, current_sheet()).items()
        if each.value is not None
    ]


def readings(rule: AlertRule, sheet: FactSheet) -> dict[str, Reading]:
    """The readings that the rule compares, by subject: of its target, or of all subjects."""
    return {
        each.subject: each
        for each in rule.watch.read(sheet)
        if not rule.target or rule.target == (each.target or each.name)
    }


def _judged(rule: AlertRule, sheet: FactSheet, *, has_open: bool) -> Counter[str]:
    """Judge one rule; the number of each verdict. LookupError for a kind that only another release
    knows: what is open stays open."""
    if rule.watch is UNKNOWN:
        raise LookupError(f"this release knows no kind {rule.kind!r} of alert rules")
    found = readings(rule, sheet)
    values = [each.value for each in found.values() if each.value is not None]
    if not has_open and not any(map(rule.limit.is_passed, values)):
        # As nearly always: it locks nothing.
        return Counter({rules.NOTHING: len(found)})
    return _written(rule, found)


@transactional
def _written(rule: AlertRule, found: Mapping[str, Reading]) -> Counter[str]:
    """Write what the readings make of the alerts of the rule, the open ones locked; the number of
    each verdict."""
    now = clock.now()
    alerts = {
        alert.subject: alert
        for alert in _open().select_for_update().filter(rule=rule).order_by("pk")
    }
    counts: Counter[str] = Counter()
    begun: list[Alert] = []
    for subject in sorted(found.keys() | alerts.keys()):
        alert, reading = alerts.get(subject), found.get(subject)
        value = None if reading is None else reading.value
        is_known = reading is None or value is not None
        verdict = rules.judge(
            rule.limit,
            value,
            None if alert is None else alert.opened,
            now,
            is_known=is_known,
            repeat_minutes=rule.repeat_minutes,
        )
        counts[verdict] += 1
        if alert is not None:
            _apply(alert, verdict, value, now)
        elif value is not None and verdict in (rules.PENDING, rules.FIRE):
            begun.append(_new(rule, subject, value, verdict, now))
    room = max(0, MAX_OPEN - len(alerts))
    # The unique key leaves out what another round has begun meanwhile.
    Alert.objects.bulk_create(begun[:room], ignore_conflicts=True)
    return counts


def _new(rule: AlertRule, subject: str, value: float, verdict: str, now: datetime) -> Alert:
    fires = verdict == rules.FIRE
    return Alert(
        rule=rule,
        subject=subject,
        value=value,
        since=now,
        fired_at=now if fires else None,
        unsent=Event.FIRING if fires else "",
        open_key=f"{rule.pk}:{subject}",
    )


def _apply(alert: Alert, verdict: str, value: float | None, now: datetime) -> None:
    """Write what the verdict makes of a locked alert."""
    if verdict == rules.FORGET:
        alert.delete()
        return
    if value is not None:
        alert.value = value
    if verdict == rules.FIRE:
        alert.fired_at, alert.unsent = now, Event.FIRING
    elif verdict == rules.REPEAT:
        alert.unsent = Event.FIRING
    elif verdict == rules.RESOLVE:
        _resolve(alert, now)
    alert.save()


def _resolve(alert: Alert, now: datetime) -> None:
    """Resolve the alert; people are notified only if they know that it fired."""
    alert.resolved_at = now
    alert.open_key = None  # type: ignore[assignment]
    alert.unsent = "" if alert.notified_at is None else Event.RESOLVED


@transactional
def _closed() -> Counter[str]:
    """Resolve the open alerts of rules that are off."""
    now, counts = clock.now(), Counter[str]()
    left = _open().select_for_update().filter(rule__enabled=False)
    for alert in left.order_by("pk"):
        verdict = rules.FORGET if alert.fired_at is None else rules.RESOLVE
        _apply(alert, verdict, None, now)
        counts[verdict] += 1
    return counts
