"""Stored values that earlier releases and settings took, and this one cannot use.

`manage.py check` warns of them, too, with the key of the watch; see checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from django.db.models import Q

from apps.common.json.schema import Checker
from apps.common.messages import Message as _
from apps.common.readers import fits_address
from apps.dispatch.models import OnceTask, RotateTask, Template
from apps.jobs.conf import conf
from apps.jobs.models import JobType
from apps.jobs.rules import retention
from apps.reports.services.fact_sheet import FactSheet
from apps.reports.watches.base import Reading, Watch
from apps.reports.watches.subjects import JOB_TYPE, TEMPLATE


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


STORED = (
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
