"""The subjects of watches and alerts: their names for people, and the pages that show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.db.models import Model
from django.urls import reverse

from apps.common.admin.html import list_url, page_url
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.dispatch.models import OnceTask
from apps.flows.models import FlowRun
from apps.reports.rules.tally import error_of
from apps.schedules.models import Schedule

JOB_TYPE, WORKER, ONCE_TASK, SWEEP = "job_type", "worker", "once_task", "sweep"
# A schedule whose jobs fail, and one whose last run made none.
SCHEDULE, SCHEDULE_RUN = "schedule", "schedule_run"
SINK, ERROR, TEMPLATE, INBOX = "sink", "error", "template", "inbox"
BEAT, CHECK = "beat", "check"
FLOW_RUN = "flow_run"
# Kinds of subjects in the database, which have no page.
TABLE, CLOCK, TRANSACTION = "table", "clock", "transaction"

# The address of a page by the name of a subject, and by the number of its row if that is known.
Address = Callable[[str, int | None], str]


class Way(NamedTuple):
    """A page of a subject: who may see it, what it is called, and its address; "" for none."""

    permission: str
    label: Message
    url: Address


def _found(model: str) -> Address:
    """The page of the row, or the list that finds it by its name."""
    return lambda name, row: page_url(model, row) if row else list_url(model, q=name)


def _type(name: str, row: int | None) -> str:
    """The page of a job type that says how it goes now."""
    return reverse("job_type_now", args=[row]) if row else list_url("jobs_jobtype", q=name)


def _numbered(model: str) -> Address:
    """The page of the row whose number is the name."""
    return lambda name, _row: page_url(model, name)


def act_on(model: str, verb: str) -> Address:
    """The page that asks before the verb is done to the row; "" where it is not known."""

    def url(_name: str, row: int | None) -> str:
        address = reverse(f"admin:{model}_act", args=[verb])
        return f"{address}?{urlencode({'ids': row})}" if row else ""

    return url


def _retry(value: str, _none: int | None) -> str:
    asked = {**_of_error(value), "back": reverse("governance")}
    return f"{reverse('admin:jobs_job_group', args=['retry'])}?{urlencode(asked)}"


def _of_error(value: str) -> dict[str, str]:
    type_, key = error_of(value)
    return {"type": type_, "error_key": key}


_SCHEDULE = Way("schedules.view_schedule", _("See the schedule"), _numbered("schedules_schedule"))
# The first is the page of the subject itself.
WAYS: Mapping[str, tuple[Way, ...]] = {
    JOB_TYPE: (Way("jobs.view_jobtype", _("See the type"), _type),),
    WORKER: (Way("jobs.view_worker", _("See the worker"), _found("jobs_worker")),),
    ONCE_TASK: (Way("dispatch.view_oncetask", _("See the task"), _numbered("dispatch_oncetask")),),
    INBOX: (Way("jobs.view_job", _("See the inbox"), lambda *_of: list_url("jobs_inboxrow")),),
    TEMPLATE: (Way("dispatch.view_template", _("See the template"), _found("dispatch_template")),),
    SCHEDULE: (_SCHEDULE,),
    SCHEDULE_RUN: (_SCHEDULE,),
    FLOW_RUN: (Way("flows.view_flowrun", _("See the run"), _numbered("flows_flowrun")),),
    SWEEP: (
        Way(
            "common.view_sweeplease",
            _("See the sweeps"),
            lambda *_of: f"{reverse('governance')}#sweeps",
        ),
    ),
    CHECK: (Way("common.view_sweeplease", _("Checks"), lambda *_of: reverse("governance")),),
    BEAT: (
        Way(
            "common.view_sweeplease",
            _("See the sweeps"),
            lambda *_of: f"{reverse('governance')}#sweeps",
        ),
    ),
    SINK: (
        Way("journal.view_sink", _("See the sinks"), lambda *_of: list_url("journal_sink")),
        Way(
            "journal.view_sinkreject",
            _("See the refused entries"),
            lambda name, _none: list_url("journal_sinkreject", sink=name),
        ),
    ),
    ERROR: (
        Way(
            "jobs.view_job",
            _("See the jobs"),
            lambda name, _none: list_url("jobs_job", **_of_error(name)),
        ),
        Way("jobs.operate_job", _("Retry…"), _retry),
    ),
}


def url_of(subject: str) -> str:
    """The address of the page of a subject; it has one."""
    kind, _colon, name = subject.partition(":")
    return WAYS[kind][0].url(name, None)


# Rows by number, and the column by which people know them.
_TITLED: tuple[tuple[type[Model], str, tuple[str, ...]], ...] = (
    (Schedule, "title", (SCHEDULE, SCHEDULE_RUN)),
    (OnceTask, "title", (ONCE_TASK,)),
    (FlowRun, "flow", (FLOW_RUN,)),
)


def names_of(subjects: Iterable[str]) -> dict[str, str]:
    """Return how people call each subject: its name, or the title with the number of its row."""
    names = {subject: subject.partition(":")[2] for subject in subjects}
    for model, title, kinds in _TITLED:
        numbered = {s: name for s, name in names.items() if s.partition(":")[0] in kinds}
        rows: Any = model._default_manager.filter(pk__in=numbered.values()) if numbered else None
        titles = {} if rows is None else dict(rows.values_list("pk", title))
        for subject, name in numbered.items():
            if found := titles.get(int(name)):
                names[subject] = f"{found} ({name})"
    return names
