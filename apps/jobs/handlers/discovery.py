"""Finding the handlers of this process."""

from __future__ import annotations

from importlib import import_module

from django.apps import apps
from django.conf import settings
from django.utils.module_loading import module_has_submodule

READY_MADE = ("apps.jobs.handlers.http", "apps.jobs.handlers.ready")


def discover() -> None:
    """Register the ready-made handlers and those in `handlers.py` of HANDLER_APPS, EXTRA_APPS."""
    for name in READY_MADE:
        import_module(name)
    for config in apps.get_app_configs():
        if _has_handlers(config.name) and module_has_submodule(config.module, "handlers"):
            import_module(f"{config.name}.handlers")


def _has_handlers(name: str) -> bool:
    if name in settings.HANDLER_APPS:
        return True
    return any(each == name or each.startswith(f"{name}.") for each in settings.EXTRA_APPS)
