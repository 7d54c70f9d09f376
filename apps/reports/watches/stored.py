"""Stored values that earlier releases and settings took, and this one cannot use.

`manage.py check` warns of them, too, with the key of the watch; see checks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from django.db.models import Model, Q

from apps.access.models import ApiClient
from apps.common.admin.html import page_url
from apps.common.db import fetch_each, placeholders, table
from apps.common.json.schema import Checker
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.readers import fits_address
from apps.common.shaped import Misshapen, is_object
from apps.common.ttl_cache import TTLCache
from apps.dispatch.models import TASK_MODELS, OnceTask, RotateTask, Task, Template
from apps.dispatch.rules.recurrence import Unreadable, read_series
from apps.flows.models import Flow
from apps.jobs.conf import conf
from apps.jobs.handlers import registry
from apps.jobs.models import JobType
from apps.jobs.rules import retention
from apps.reports.services.fact_sheet import FactSheet
from apps.reports.watches.base import WARNING, Reading, Watch
from apps.reports.watches.subjects import JOB_TYPE, TEMPLATE, Way
from apps.schedules.models import Schedule


def _misnamed(
    kind: str, model: type[JobType] | type[Template]
) -> Callable[[FactSheet], Iterator[Reading]]:
    def read(_sheet: FactSheet) -> Iterator[Reading]:
        for name in sorted(set(model.objects.values_list("name", flat=True))):
            if not fits_address(name):
                yield Reading(kind, name)

    return read


def _unfit_types(_sheet: FactSheet) -> Iterator[Reading]:
    for row in JobType.objects.order_by("name"):
        if row.params_schema and (trouble := Checker(row.params_schema).trouble):
            text = _(
                "No context fits the job type {name}, so nobody can submit to it. {why}",
                name=row.name,
                why=trouble,
            )
            yield Reading(JOB_TYPE, row.name, text=text, row=row.pk)


def _unkept_types(_sheet: FactSheet) -> Iterator[Reading]:
    limits = {"retention": conf.JOB_RETENTION, "archive_after": conf.JOB_ARCHIVE_AFTER}
    for row in JobType.objects.exclude(retention_days=None).order_by("name"):
        days = row.retention_days or 0
        if not retention.is_possible(days, **limits):
            text = _(
                "Jobs of type {name} cannot be kept for {days} days.", name=row.name, days=days
            )
            yield Reading(JOB_TYPE, row.name, text=text, row=row.pk)


def _unfit_templates(_sheet: FactSheet) -> Iterator[Reading]:
    usable = Q(pk__in=Template.objects.newest(), status=Template.Status.ACTIVE)
    for model in (OnceTask, RotateTask):
        usable |= Q(pk__in=model.objects.not_deleted().values("template"))
    for row in Template.objects.filter(usable).order_by("name", "version"):
        if trouble := Checker(row.schema).trouble:
            text = _("No params fit the template {name}. {why}", name=str(row), why=trouble)
            yield Reading(TEMPLATE, row.name, text=text, row=row.pk)


# --- values of another shape, which somebody has written by SQL -----------------------------------
_ROW = "row"
# So many rows of each kind are looked at, the newest.
_MOST = 10_000
# All rows are read, and Home asks every few seconds.
kept: TTLCache[list[Reading]] = TTLCache(15.0, times_as_long=1_000)
_ACTIVE = f"status = '{Task.Status.ACTIVE.value}'"
_NEWEST = (
    f"{_ACTIVE} AND version = (SELECT MAX(n.version) FROM {table(Flow)} n WHERE n.name = t.name)"
)
# What the platform runs on: the title of the row, the columns, and which rows count.
_LOOKED_AT: tuple[tuple[type[Model], str, tuple[str, ...], str], ...] = (
    *(
        (each, "title", ("params",), f"{_ACTIVE} AND NOT {is_object('params')}")
        for each in TASK_MODELS.values()
    ),
    (RotateTask, "title", ("rule",), _ACTIVE),
    (Schedule, "title", ("rule",), f"{_ACTIVE} AND rule IS NOT NULL"),
    (JobType, "name", ("stages", "allowed_hosts"), "1 = 1"),
    (ApiClient, "name", ("scopes", "executors", "job_types"), "revoked_at IS NULL"),
    (Flow, "name", ("definition",), _NEWEST),
)


def _parts() -> Iterator[tuple[str, list[Any]]]:
    own = sorted(registry.system_types())
    for number, (model, title, columns, where) in enumerate(_LOOKED_AT):
        # Those of the platform's own types have pages in words of their own.
        bound = own if model is Schedule else []
        others = f" AND job_type NOT IN ({placeholders(len(own))})" if bound else ""
        for column in columns:
            zone = "time_zone" if column == "rule" else "''"
            yield (
                f"SELECT {number}, id, {title}, '{column}', {column}, {zone} FROM {table(model)} t "
                f"WHERE {where}{others} ORDER BY id DESC LIMIT {_MOST}",
                bound,
            )


def _unread(_sheet: FactSheet) -> list[Reading]:
    return kept.get("", lambda: [*_rows_left_out()])


def _rows_left_out() -> Iterator[Reading]:
    """Their params are not quoted: not everybody may see them."""
    for number, pk, title, column, written, zone in fetch_each(_parts()):
        model = _LOOKED_AT[number][0]
        if column == "rule":
            rule, _zone = read_series(written, zone)
            # A schedule without a rule is due once.
            is_once = model is Schedule and written == "null"
            if is_once or not isinstance(rule, Unreadable):
                continue
            text = _("The rule of {row} cannot be read. {why}", row=title, why=rule.why)
        else:
            field: Any = model._meta.get_field(column)
            value = field.shaped(json.loads(written))
            if not isinstance(value, Misshapen):
                continue
            text = _(
                "{row} cannot be read: {field} is not {shape}.",
                row=title,
                field=column,
                shape=value.is_for,
            )
        yield _of_row(model, pk, text)


def _of_row(model: type[Model], pk: int, text: Message) -> Reading:
    name, url = model._meta.model_name, page_url(model, pk)
    way = Way(f"{model._meta.app_label}.view_{name}", _("See the row"), lambda *_of: url)
    return Reading(_ROW, f"{name}:{pk}", text=text, row=pk, via=way)


STORED = (
    Watch(
        key="stored.W001",
        title=_("What is stored can be read"),
        read=_unread,
        advice={
            _ROW: _(
                "Until it is mended it is left out. Open its page, which says what is stored, and "
                "save a right value."
            )
        },
        severity=WARNING,
    ),
    Watch(
        key="jobs.W001",
        title=_("Names of job types fit into addresses"),
        read=_misnamed(JOB_TYPE, JobType),
        says={
            JOB_TYPE: _("The job type {name} cannot be addressed everywhere because of its name.")
        },
        advice={
            JOB_TYPE: _(
                "Make a type of another name, submit to that one, and delete this one in the "
                "admin when it has no jobs any more."
            )
        },
    ),
    Watch(
        key="jobs.W003",
        title=_("Something fits the schema of each job type"),
        read=_unfit_types,
        advice={JOB_TYPE: _("Mend the schema in the admin of the job type and save it.")},
    ),
    Watch(
        key="jobs.W002",
        title=_("Jobs of each type can be kept as long as it says"),
        read=_unkept_types,
        advice={
            JOB_TYPE: _(
                "Change the days in the admin of the job type; they lie between "
                "JOB_ARCHIVE_AFTER and JOB_RETENTION."
            )
        },
    ),
    Watch(
        key="dispatch.W001",
        title=_("Names of templates fit into addresses"),
        read=_misnamed(TEMPLATE, Template),
        says={
            TEMPLATE: _("The template {name} cannot be addressed everywhere because of its name.")
        },
        advice={
            TEMPLATE: _(
                "Make a template of another name with its schema, give that to the tasks that "
                "use this one, and retire this one in the admin."
            )
        },
    ),
    Watch(
        key="dispatch.W002",
        title=_("Something fits the schema of each template"),
        read=_unfit_templates,
        advice={
            TEMPLATE: _(
                "Save the template with the schema mended, and give its new version to the "
                "tasks that use this one."
            )
        },
    ),
)
