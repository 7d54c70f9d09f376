"""The words of alerts in the journal."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from apps.alerts.admin.rules import WEEK
from apps.alerts.models import Alert, AlertRule, Channel, ReportPlan
from apps.alerts.services import calling, mailing, report_plans, report_runs, sending, waiting
from apps.common.admin.display import listed
from apps.journal.admin.words import CHANGED, Event, pages_by_name, register
from apps.journal.models import Source


def _format_days(value: str) -> str:
    return listed(title for day, title in WEEK if day in value) or "–"


register(
    AlertRule,
    Channel,
    Alert,
    ReportPlan,
    formatters={"quiet_days": _format_days},
    events={
        "rule_created": Event(
            _("Alert rule created"), "add_circle", "success", said=_("created {what}")
        ),
        "rule_changed": Event(_("Alert rule changed"), "edit", "info", said=CHANGED),
        "rule_deleted": Event(
            _("Alert rule deleted"), "delete", "danger", said=_("deleted {what}")
        ),
        "channel_created": Event(
            _("Channel created"), "add_circle", "success", said=_("created {what}")
        ),
        "channel_tested": Event(_("Test sent"), "send", said=_("sent a test through {what}")),
        "channel_changed": Event(_("Channel changed"), "edit", "info", said=CHANGED),
        "channel_deleted": Event(
            _("Channel deleted"), "delete", "danger", said=_("deleted {what}")
        ),
        "alert_snoozed": Event(_("Alert snoozed"), "snooze", "warning", said=_("snoozed {what}")),
        # Report plans of release 0.3.0, which are schedules now.
        "report_planned": Event(
            _("Report planned"), "add_circle", "success", said=_("created {what}")
        ),
        "report_plan_changed": Event(_("Report plan changed"), "edit", "info", said=CHANGED),
        "report_plan_deleted": Event(
            _("Report plan deleted"), "delete", "danger", said=_("deleted {what}")
        ),
        "report_sent": Event(
            _("Report sent by hand"), "send", "info", said=_("sent the report of {what} by hand")
        ),
    },
    names={"channels": _("channels"), "owner": _("owner")},
    pages={
        Source.PLAN: pages_by_name(
            {
                "alert": "alerts_alert",
                "alert-rule": "alerts_alertrule",
                "channel": "alerts_channel",
            }
        )
    },
    messages=(
        *(sending.GONE, sending.BEING_SENT, sending.NOT_TAKEN, sending.REFUSED),
        *(mailing.NO_SERVER, calling.UNREADABLE),
        *(sending.TOO_LATE, waiting.NEVER_ENDED, waiting.JOB_ENDED),
        *(report_plans.DELETED, report_plans.DISABLED, report_plans.FORBIDDEN),
        *(report_plans.GONE, report_plans.NO_CHANNEL, report_runs.FORGOTTEN),
    ),
)
