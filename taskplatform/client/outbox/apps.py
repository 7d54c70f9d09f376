from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _

from .conf import EXAMPLE, options


class OutboxConfig(AppConfig):
    # By whatever name the package is imported.
    name = __package__ or ""
    label = "taskplatform_outbox"
    verbose_name = _("Task platform")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        checks.register(check_settings)


def check_settings(**_more: Any) -> list[checks.CheckMessage]:
    """The settings name a server. Without one jobs are kept, as is right where tests run."""
    try:
        said = options()
        if not (said.url and said.key):
            words = "Jobs stay in the outbox: TASKPLATFORM names no server, or no key."
            return [checks.Warning(words, hint=EXAMPLE, id="taskplatform_outbox.W001")]
        said.client()
    except ImproperlyConfigured as error:
        return [checks.Error(str(error), hint=EXAMPLE, id="taskplatform_outbox.E001")]
    return []
