"""Finding the handlers of this process."""

from __future__ import annotations

from importlib import import_module

from django.apps import apps
from django.conf import settings
from django.utils.module_loading import module_has_submodule

READY_MADE = ("apps.jobs.handlers.http", "apps.jobs.handlers.ready")


def discover() -> None:
    """Register the ready-made handlers, and those in `handlers.py` of the platform's own
    HANDLER_APPS and of the EXTRA_APPS."""
    for name in READY_MADE:
        import_module(name)
    for config in apps.get_app_configs():
        if _has_handlers(config.name) and module_has_submodule(config.module, "handlers"):
            import_module(f"{config.name}.handlers")


def _has_handlers(name: str) -> bool:
    named = (*settings.HANDLER_APPS, *settings.EXTRA_APPS)
    return any(each == name or each.startswith(f"{name}.") for each in named)
