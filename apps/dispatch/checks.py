"""System checks of what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core import checks
from django.db import DatabaseError

from apps.common.names import fits_address
from apps.dispatch.models import Template


def check_template_names(
    *, databases: Sequence[str] | None = None, **_: Any
) -> list[checks.CheckMessage]:
    """Warnings of templates from before names had to fit into addresses."""
    if not databases or "default" not in databases:
        return []
    try:
        names = sorted(set(Template.objects.values_list("name", flat=True)))
    except DatabaseError:
        # Before the first migration there is no table of templates.
        return []
    return [
        checks.Warning(
            f"The template {name} cannot be addressed everywhere because of its name.",
            hint="Make a template of another name with its schema, give that to the tasks that "
            "use this one, and retire this one in the admin.",
            id="dispatch.W001",
        )
        for name in names
        if not fits_address(name)
    ]
