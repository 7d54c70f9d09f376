from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class SchedulesConfig(AppConfig):
    name = "apps.schedules"
    label = "schedules"
    verbose_name = _("Schedules")

    def ready(self) -> None:
        from apps.jobs.services import resumed
        from apps.schedules.services import uses
        from apps.schedules.services.ends import reopen

        resumed.register(reopen)
        uses.register()
