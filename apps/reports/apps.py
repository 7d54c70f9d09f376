from django.apps import AppConfig
from django.core.checks import Tags, register
from django.utils.translation import gettext_lazy as _


class ReportsConfig(AppConfig):
    name = "apps.reports"
    label = "reports"
    verbose_name = _("Reports")

    def ready(self) -> None:
        from apps.common import tidy
        from apps.journal.services.retention import readers
        from apps.reports.checks import check_stored
        from apps.reports.services.problems import forget
        from apps.reports.services.rollup import read_until

        readers.append(read_until)
        tidy.register("problems", forget)
        register(check_stored, Tags.database)
