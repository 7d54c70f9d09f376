from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class AlertsConfig(AppConfig):
    name = "apps.alerts"
    label = "alerts"
    verbose_name = _("Alerts")

    def ready(self) -> None:
        from apps.alerts.services.broken import UNJUDGED
        from apps.alerts.services.firing import FIRING, NOBODY_NOTIFIED
        from apps.alerts.services.retention import forget_alerts, forget_deliveries
        from apps.common import tidy
        from apps.reports.watches import WATCHES

        # The deliveries first: alerts go with the last of theirs.
        tidy.register("deliveries of alerts", forget_deliveries)
        tidy.register("resolved alerts", forget_alerts)
        WATCHES.insert(0, FIRING)
        WATCHES.extend([NOBODY_NOTIFIED, UNJUDGED])
