"""An example to begin with: people take photos, others review them, a job makes something of it."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext

from apps.common.errors import PlatformError
from apps.dispatch.models import Executor
from apps.flows.services.check import check
from apps.jobs.models import Bounds
from apps.jobs.services.types import open_types

EXAMPLE = "example"
NAME = "shelf-check"
# Whom it is for where nobody may be addressed yet; the form then says that they are missing.
_NOBODY = "gid_staff"
_MAX_TYPES = 10


def example(user: Any, bounds: Bounds) -> dict[str, Any]:
    """The fields of the form: a flow for the first group of those that this person may address,
    with a job of the first type that takes it as it is."""
    people = Executor.objects.visible_to(user).filter(enabled=True)
    names = people.order_by("name").values_list("name", flat=True)
    name = names.filter(name__startswith="gid_").first() or names.first() or _NOBODY
    steps = _steps(name)
    types = open_types(bounds.types).order_by("name").values_list("name", flat=True)
    for type_name in types[:_MAX_TYPES]:
        with_job = [*steps, _report(type_name)]
        if _is_right(with_job, bounds):
            steps = with_job
            break
    return {"name": NAME, "title": gettext("Shelf check"), "definition": _definition(steps)}


def _steps(name: str) -> list[dict[str, Any]]:
    return [
        {
            "name": "photos",
            "kind": "task",
            "title": gettext("Shelf photos"),
            "executor": name,
            "params": {"shop": {"$from": "params", "path": "shop"}},
        },
        {
            "name": "review",
            "kind": "task",
            "title": gettext("Review the photos"),
            "executor": name,
            "params": {"photos": {"$from": "photos"}},
            "within": 14_400,
        },
    ]


def _report(type_name: str) -> dict[str, Any]:
    return {
        "name": "report",
        "kind": "job",
        "title": gettext("Write the report"),
        "type": type_name,
        "context": {"review": {"$from": "review"}},
    }


def _definition(steps: list[dict[str, Any]]) -> dict[str, Any]:
    params = {"type": "object", "properties": {"shop": {"type": "string"}}, "required": ["shop"]}
    return {"params": params, "steps": steps}


def _is_right(steps: list[dict[str, Any]], bounds: Bounds) -> bool:
    try:
        check(_definition(steps), bounds=bounds)
    except PlatformError:
        return False
    return True
