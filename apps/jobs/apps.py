from django.apps import AppConfig
from django.core.checks import Tags, register
from django.utils.translation import gettext_lazy as _


class JobsConfig(AppConfig):
    name = "apps.jobs"
    label = "jobs"
    verbose_name = _("Jobs")

    def ready(self) -> None:
        from apps.jobs.handlers import checks, discovery

        discovery.discover()
        register(checks.check_handlers)
        register(checks.check_types, Tags.database)
