"""What rules are limited to, and whether it exists."""

from __future__ import annotations

from django.utils.translation import gettext

from apps.alerts.models import AlertRule
from apps.alerts.rules import kinds
from apps.alerts.services.sheet import present
from apps.dispatch.models import Executor
from apps.jobs.models import Worker
from apps.jobs.services.types import names_among


def unknown_target(rule: AlertRule) -> str:
    """The sentence that what the rule is limited to does not exist, or ""."""
    name = rule.target
    if not name:
        return ""
    if rule.kind == kinds.QUOTA_UNFILLED:
        is_known = Executor.objects.names_among([name]).exists()
        sentence = gettext("There is no executor %(name)s (yet).")
    elif rule.kind == kinds.SWEEP_OVERDUE:
        is_known = name in present().periods
        sentence = gettext("There is no sweep %(name)s.")
    elif rule.kind == kinds.WORKER_SILENT:
        is_known = bool(names_among([name])) or Worker.objects.filter(name=name).exists()
        sentence = gettext("There is no worker and no job type %(name)s (yet).")
    else:
        is_known = bool(names_among([name]))
        sentence = gettext("There is no job type %(name)s (yet).")
    return "" if is_known else sentence % {"name": name}
