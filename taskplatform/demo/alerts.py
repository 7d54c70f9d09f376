"""Rules of the demo: they show on their pages that its failing jobs fail, and call nobody."""

from __future__ import annotations

from apps.alerts.models import AlertRule
from apps.alerts.services.settings import create_rule
from apps.common.db import transactional
from taskplatform.demo.company import ACTOR, ALERT_RULES


@transactional
def make_rules() -> int:
    """Make the rules; 0 when there are any."""
    if AlertRule.objects.exists():
        return 0
    for rule in ALERT_RULES:
        create_rule(actor=ACTOR, **rule)
    return len(ALERT_RULES)
