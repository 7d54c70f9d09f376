"""The tasks of earlier versions of a template that fit another schema, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from apps.common.errors import FieldError
from apps.common.json.schema import Checker
from apps.common.masking import kept
from apps.dispatch.models import Task, Template

# Tasks of each kind: their params are read and checked one by one, and an address names them.
MAX_CHECKED = 300


@dataclass(frozen=True, slots=True)
class Misfit:
    """A task whose params do not fit, and why."""

    task: Any
    errors: Sequence[FieldError]


@dataclass(frozen=True, slots=True)
class Fit:
    """The tasks of one kind that were looked at; `more` when there are others."""

    model: type[Task]
    fits: Sequence[int]
    misfits: Sequence[Misfit]
    more: bool

    @property
    def count(self) -> int:
        return len(self.fits) + len(self.misfits)


def fitting(
    name: str, schema: Mapping[str, Any], rows: Sequence[QuerySet[Any]], *, below: int
) -> list[Fit]:
    """One Fit for each of the querysets of tasks, with those of versions `below` this one, by
    whether their params fit the schema; at most MAX_CHECKED of each, the oldest version first.
    Deleted tasks are left out."""
    versions = Template.objects.filter(name=name, version__lt=below)
    earlier = list(versions.order_by("version").values_list("pk", flat=True))
    checker = Checker(schema)
    return [_fit(tasks, earlier, checker) for tasks in rows] if earlier else []


def _fit(rows: QuerySet[Any], earlier: Sequence[int], checker: Checker) -> Fit:
    asked = rows.filter(template__in=earlier).exclude(status=Task.Status.DELETED)
    # In the order of the index, so that the rest is not read.
    looked = asked.order_by("template", "pk").only("title", "params", "template")
    found = [*looked[: MAX_CHECKED + 1]]
    more = len(found) > MAX_CHECKED
    fits: list[int] = []
    misfits: list[Misfit] = []
    for task in found[:MAX_CHECKED]:
        errors = checker.faults(kept(task.params))
        if errors:
            misfits.append(Misfit(task, errors))
        else:
            fits.append(task.pk)
    return Fit(rows.model, fits, misfits, more)


def has_earlier(template: Template, rows: Sequence[QuerySet[Any]]) -> bool:
    """Whether any of the tasks has an earlier version of the template."""
    earlier = Template.objects.filter(name=template.name, version__lt=template.version)
    asked = earlier.values("pk")
    return any(
        tasks.filter(template__in=asked).exclude(status=Task.Status.DELETED).exists()
        for tasks in rows
    )
