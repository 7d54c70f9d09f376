"""Audit of the alerts, and of the reports and messages that are sent."""

from __future__ import annotations

from datetime import timedelta

from django.utils.translation import gettext_lazy as _

from apps.alerts.models import Alert, Delivery
from apps.alerts.services.waiting import overdue
from apps.common import clock
from apps.common.audit import MAX_FOUND, Breach, Check, CheckResult, RowRule, check_rows, say
from apps.common.db import fetch, table

# The sweep runs four times a minute.
LATE = timedelta(minutes=15)

_RULES = (
    RowRule(
        "I66",
        "resolved_at IS NULL AND open_key IS NULL",
        _("is open without the key that keeps a second one from opening"),
    ),
    RowRule(
        "I66",
        "resolved_at IS NOT NULL AND open_key IS NOT NULL",
        _("is resolved, but keeps the next one about its subject from opening"),
    ),
)


def _open(_recent: int) -> CheckResult:
    """I66: a rule has one open alert about a subject at most."""
    found = check_rows(Alert, _RULES, "alert")
    twice = fetch(
        f"SELECT MIN(id), subject, COUNT(*) FROM {table(Alert)} WHERE resolved_at IS NULL "
        f"GROUP BY rule_id, subject HAVING COUNT(*) > 1 LIMIT {MAX_FOUND}"
    )
    breaches = [
        Breach(
            "I66",
            f"alert {number}",
            say(_("is one of %(count)d open ones about %(subject)s"), {"count": n, "subject": s}),
        )
        for number, s, n in twice
    ]
    return CheckResult(found.rows, [*found.breaches, *breaches], found.cut)


_REPORT_RULES = (
    RowRule(
        "I67",
        "event = 'report' AND job IS NULL",
        _("belongs to no run, so the report may be sent twice"),
    ),
)


def _reports(_recent: int) -> CheckResult:
    """I67: each message of a report has the job of its run, which has one for each channel."""
    return check_rows(Delivery, _REPORT_RULES, "delivery")


def _deliveries(_recent: int) -> CheckResult:
    """I68: what waits is tried again, or ends."""
    late = overdue(clock.now() - LATE).order_by("pk")
    found = late.values_list("pk", "created_at")[: MAX_FOUND + 1]
    words = _("waits since %(at)s, and nobody sends it")
    breaches = [
        Breach("I68", f"delivery {number}", say(words, {"at": f"{at:%Y-%m-%d %H:%M} UTC"}))
        for number, at in found[:MAX_FOUND]
    ]
    return CheckResult(Delivery.objects.count(), breaches, len(found) > MAX_FOUND)


CHECKS = (
    Check("alerts", ("I66",), _("A rule has at most one open alert about each subject"), _open),
    Check("reports", ("I67",), _("Each message of a report belongs to a run"), _reports),
    Check("deliveries", ("I68",), _("A message that waits is sent soon, or fails"), _deliveries),
)
