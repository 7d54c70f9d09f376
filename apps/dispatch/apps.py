from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class DispatchConfig(AppConfig):
    name = "apps.dispatch"
    label = "dispatch"
    verbose_name = _("Dispatch")
