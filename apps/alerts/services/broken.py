"""Alert rules that cannot be judged, as their sweep keeps them for the pages: nobody hears of what
they watch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from apps.alerts.models import AlertRule
from apps.common import clock
from apps.common.admin.html import page_url
from apps.common.leases import load_position, save_position
from apps.common.masking import redact
from apps.common.messages import Message as _
from apps.reports.services.fact_sheet import FactSheet
from apps.reports.watches import UNKNOWN
from apps.reports.watches.base import WARNING, Reading, Watch
from apps.reports.watches.subjects import Way

EVALUATE = "alerts.evaluate"
_BROKEN = "broken"
RULE = "alert_rule"


def note_broken(errors: Mapping[str, str]) -> None:
    """Keep the errors of the rules that could not be judged in this round, by their numbers, each
    with the time since when it has been the same."""
    before = load_position(EVALUATE).get(_BROKEN, {})
    now = clock.now().isoformat()
    found = {
        rule: before[rule]
        if before.get(rule, {}).get("error") == error
        else {"error": error, "since": now}
        for rule, error in errors.items()
    }
    if found != before:
        save_position(EVALUATE, {_BROKEN: found})


def _read(sheet: FactSheet) -> Iterator[Reading]:
    kept = next((run.position for run in sheet.sweeps if run.name == EVALUATE), {})
    broken = kept.get(_BROKEN, {})
    rules = AlertRule.objects.filter(pk__in=[*broken], enabled=True) if broken else ()
    for rule in rules:
        known = broken[str(rule.pk)]
        since = datetime.fromisoformat(known["since"])
        yield Reading(
            RULE,
            str(rule.pk),
            text=_(
                "The alert rule {name} cannot be judged, so it tells nobody: {error}",
                name=rule.name,
                error=UNKNOWN.title if rule.watch is UNKNOWN else redact(known["error"]),
            ),
            why=_("began {since}", since=since),
            since=since,
        )


UNJUDGED = Watch(
    key="unjudged",
    title=_("All alert rules can be judged"),
    read=_read,
    leads={
        RULE: Way(
            "alerts.view_alertrule",
            _("Alert rule"),
            lambda name, _row: page_url("alerts_alertrule", name),
        )
    },
    severity=WARNING,
    icon="notifications_off",
)
