from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class BulkConfig(AppConfig):
    name = "apps.bulk"
    label = "bulk"
    verbose_name = _("Bulk runs")

    def ready(self) -> None:
        # Registers the kinds of rows.
        from apps.bulk.services import of_dispatches, of_jobs, of_tasks  # noqa: F401
