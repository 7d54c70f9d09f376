"""Finding the handlers of this process."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from types import ModuleType

from django.apps import apps
from django.conf import settings
from django.utils.module_loading import module_has_submodule

READY_MADE = ("apps.jobs.handlers.http", "apps.jobs.handlers.ready")


def discover() -> None:
    """Register the ready-made handlers, and those in `handlers.py` of the platform's own
    HANDLER_APPS and of the EXTRA_APPS."""
    for name in READY_MADE:
        import_module(name)
    modules_named("handlers", (*settings.HANDLER_APPS, *settings.EXTRA_APPS))


def modules_named(name: str, of: Collection[str]) -> list[ModuleType]:
    """The modules of that name, imported, of those of the apps that have one."""
    return [
        import_module(f"{app.name}.{name}")
        for app in apps.get_app_configs()
        if any(each == app.name or each.startswith(f"{app.name}.") for each in of)
        and module_has_submodule(app.module, name)
    ]
