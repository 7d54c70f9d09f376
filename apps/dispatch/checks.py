"""System checks of what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core import checks
from django.db import DatabaseError
from django.db.models import Q

from apps.common.json_schema import Checker
from apps.common.readers import fits_address
from apps.dispatch.models import OnceTask, RotateTask, Template


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


def check_template_schemas(
    *, databases: Sequence[str] | None = None, **_: Any
) -> list[checks.CheckMessage]:
    """Warnings of templates whose schema an earlier version took and this one cannot use."""
    if not databases or "default" not in databases:
        return []
    try:
        usable = Q(pk__in=Template.objects.newest(), status=Template.Status.ACTIVE)
        for model in (OnceTask, RotateTask):
            usable |= Q(pk__in=model.objects.not_deleted().values("template"))
        templates = list(Template.objects.filter(usable).order_by("name", "version"))
    except DatabaseError:
        # Before the first migration there is no table of templates.
        return []
    return [
        checks.Warning(
            f"No params fit the template {template}. {trouble}",
            hint="Save the template with the schema mended, and give its new version to the tasks "
            "that use this one.",
            id="dispatch.W002",
        )
        for template in templates
        if (trouble := Checker(template.schema).trouble)
    ]
