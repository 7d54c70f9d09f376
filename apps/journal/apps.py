from django.apps import AppConfig
from django.core.checks import register
from django.utils.translation import gettext_lazy as _


class JournalConfig(AppConfig):
    name = "apps.journal"
    label = "journal"
    verbose_name = _("Journal")

    def ready(self) -> None:
        from apps.journal.checks import check_sinks

        register(check_sinks)
