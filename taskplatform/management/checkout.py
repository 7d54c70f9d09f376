"""Commands whose code lives with the tests, which an image leaves out."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from django.core.management.base import CommandError


def load(module: str) -> ModuleType:
    """A module of the tests; CommandError with what to do when something of it is not here."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise CommandError(
            f"This needs {error.name}, which is not here. It is part of the tests: "
            "run it in a checkout of the repository that `make test` has set up."
        ) from error
