from importlib import import_module

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class AccessConfig(AppConfig):
    name = "apps.access"
    label = "access"
    verbose_name = _("Access")

    def ready(self) -> None:
        # Importing is registering; nothing else refers to it.
        import_module("apps.access.schema")
