from django.apps import AppConfig
from django.core.checks import register
from django.utils.translation import gettext_lazy as _


class JournalConfig(AppConfig):
    name = "apps.journal"
    label = "journal"
    verbose_name = _("Journal")

    def ready(self) -> None:
        from apps.common import tidy
        from apps.journal.checks import check_sinks
        from apps.journal.services.carry import forget_rejects

        register(check_sinks)
        tidy.register("entries that sinks refused", forget_rejects)
