"""The steps of a run, drawn and as a list, with the jobs and hand-outs of those that go on or have
failed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from apps.common import clock
from apps.common.admin.buttons import row_button
from apps.common.admin.display import choice_word, short_or_none, short_time, shown_text, translate
from apps.common.admin.html import joined, link, list_url, noted, page_url
from apps.common.masking import redact
from apps.dispatch.admin.dispatch_states import state_in_list, time_left
from apps.dispatch.admin.people import person
from apps.dispatch.models import Dispatch, OnceTask
from apps.flows.admin import run_words, step_words
from apps.flows.admin.graph import BoxOfRun, graph_of
from apps.flows.models import FlowRun, FlowStep
from apps.flows.rules import joins, shapes
from apps.flows.services import progress
from apps.flows.services.progress import Parts, StepProgress
from apps.jobs.admin.job_fields import status_label
from apps.jobs.models import AnyJob, Job
from apps.jobs.rules import transitions as t
from apps.jobs.services.explain import explain
from apps.journal.admin.words import reason_of

State = FlowStep.State
# Steps of which the first job that waits is explained.
MAX_EXPLAINED = 3
MAX_TEXT = 80


class Line(NamedTuple):
    """A line of the list: a step, or below it a job or a hand-out."""

    id: str
    number: str
    name: object
    state: object
    who: object
    done: object
    began: object
    took: object
    acts: object
    look: str


class RunView:
    """A run as one person sees it."""

    def __init__(self, request: HttpRequest, run: FlowRun, page: str) -> None:
        self.request, self.run, self._page = request, run, page
        self.now = clock.now()

    def may(self, permission: str) -> bool:
        user: Any = self.request.user
        return bool(user.has_perm(permission))

    @cached_property
    def found(self) -> dict[str, StepProgress]:
        """How each step stands."""
        return progress.read_progress(self.run, Dispatch.objects.visible_to(self.request.user))

    @property
    def has_failed_parts(self) -> bool:
        """Whether a step has failed, or a job of one that goes on."""
        return any(
            each.row.state == State.FAILED or (each.row.state == State.ACTIVE and each.failed_jobs)
            for each in self.found.values()
        )

    @cached_property
    def people(self) -> step_words.People:
        """Whom the tasks are for."""
        return step_words.people_of([self.run.read], self.request.user)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The places of the steps in the definition, from 1 on."""
        return {name: number for number, name in enumerate(self.found, 1)}

    @cached_property
    def verdicts(self) -> dict[str, joins.Verdict]:
        """What follows for the steps that have not begun."""
        stands = {name: each.row.stands for name, each in self.found.items()}
        return joins.verdicts(self.run.read, stands)

    # --- the drawing ------------------------------------------------------------------------------
    def graph(self) -> SafeString:
        boxes = {
            name: BoxOfRun(
                href=f"#step-{each.row.pk}",
                state=_look_of(each),
                parts=bar_of(each),
                line=run_words.done_words(each, self.numbers),
            )
            for name, each in self.found.items()
        }
        graph = graph_of(self.run.read, self.people, boxes)
        return render_to_string("admin/flows/graph.html", {"graph": graph})

    # --- the list ---------------------------------------------------------------------------------
    def table(self) -> SafeString:
        lines = [line for name in self.found for line in self._lines(name)]
        return render_to_string("admin/flow_run/steps.html", {"lines": lines})

    def _lines(self, name: str) -> Iterator[Line]:
        each = self.found[name]
        row = each.row
        words = run_words.done_words(each, self.numbers)
        yield Line(
            id=f"step-{row.pk}",
            number=str(self.numbers[name]),
            name=format_html("<bdi>{}</bdi>", run_words.title_of(each)),
            state=run_words.step_state(each, self.verdicts.get(name)),
            who=self._target(each),
            done=format_html("{}<span>{}</span>", _bar(each), words),
            began=short_or_none(self._began(row)) or "",
            took=self._step_took(row),
            acts=joined(self._links(each), " "),
            look="flow-step",
        )
        if memo := run_words.why(row):
            yield _note(row, "why", memo)
        if not each.is_shown_in_parts:
            return
        shown = [*self._jobs(each), *self._dispatches(each)]
        yield from shown
        if more := self._more(each, len(shown)):
            yield _note(row, "more", more)
        if reason := self._why_waits(each):
            yield _note(row, "waits", reason)

    def _target(self, each: StepProgress) -> object:
        row, name = each.row, shown_text(each.row.target, limit=MAX_TEXT)
        if row.kind == shapes.TASK:
            return self.people.known[row.target].shown
        if row.kind == shapes.WAIT:
            until = each.step.over_at(row.started_at) if row.state == State.ACTIVE else None
            return "" if until is None else format_html(gettext("until {}"), short_time(until))
        shown = format_html("<bdi>{}</bdi>", name)
        made_of = step_words.each_of(self.run.read.steps[row.name])
        return noted(shown, made_of) if made_of else shown

    @cached_property
    def _first_begun(self) -> dict[str, datetime]:
        return progress.first_begun(self.run)

    def _began(self, row: FlowStep) -> datetime | None:
        """When the step began first, however often it was tried again since."""
        return row.started_at and self._first_begun.get(row.name, row.started_at)

    def _step_took(self, row: FlowStep) -> object:
        """How long its last try took or goes on, and since when if that is not its first."""
        took, since = self._took(row.started_at, row.ended_at), row.started_at
        if since is None or since == self._began(row):
            return took
        return noted(took, format_html(gettext("try since {}"), short_time(since)))

    def _took(self, since: datetime | None, until: datetime | None) -> str:
        return "" if since is None else run_words.length_of((until or self.now) - since)

    def _links(self, each: StepProgress) -> Iterator[SafeString]:
        """Where its jobs or hand-outs are listed, and what is done with the step."""
        row = each.row
        if row.first is not None and self.may("jobs.view_job"):
            yield link(list_url(Job, part_of=row.pk), gettext("jobs"))
        if row.task is not None and self.may("dispatch.view_dispatch"):
            url = list_url(Dispatch, source=OnceTask.source.value, task=row.task)
            yield link(url, gettext("dispatches"))
        if row.task is not None and self.may("dispatch.view_oncetask"):
            yield link(page_url(OnceTask, row.task), gettext("task"))
        if not self.may("flows.override_flow"):
            return
        if row.kind == shapes.WAIT and row.state == State.ACTIVE and self._is_running:
            yield self._act("finish", row.name, gettext("Finish…"))
        is_failed = row.state == State.FAILED and each.holds_up and self.run.status in _MAY_SKIP
        if is_failed or (each.parts.failed and row.state == State.ACTIVE and self._is_running):
            yield self._act("skip", row.name, gettext("Go on without it…"))

    @property
    def _is_running(self) -> bool:
        return self.run.status == FlowRun.Status.RUNNING

    def _act(self, name: str, step: str, text: str) -> SafeString:
        url = admin.site.get_model_admin(FlowRun).url("act", name)  # type: ignore[attr-defined]
        asked = urlencode({"ids": self.run.pk, "step": step})
        return link(f"{url}?{asked}", text, look="cell-button")

    # --- jobs -------------------------------------------------------------------------------------
    def _jobs(self, each: StepProgress) -> Iterator[Line]:
        if not self.may("jobs.view_job"):
            return
        for job in each.jobs:
            model_admin: Any = admin.site.get_model_admin(type(job))
            yield Line(
                id=f"job-{job.pk}",
                number="",
                name=link(page_url(type(job), job.pk), self._name_of(job)),
                state=status_label(job),
                who=_of_job(job),
                done=gettext("try %(number)d of %(max)d")
                % {"number": job.attempts, "max": job.max_attempts},
                began=short_or_none(job.started_at) or "",
                took=self._took(job.started_at, job.finished_at),
                acts=row_button(model_admin, self.request, "retry", job, back=self._page),
                look="flow-part",
            )

    def _name_of(self, job: AnyJob) -> str:
        """Its key, else the item that it is for, else its number."""
        item = getattr(job, "item", None) if self.may("flows.view_payload") else None
        return shown_text(job.key or redact(item or ""), limit=40) or str(job.pk)

    def _why_waits(self, each: StepProgress) -> str:
        """Why the first job of the step is not running, or nobody has its task."""
        if each.row.state != State.ACTIVE:
            return ""
        if each.task is not None and not each.parts.held:
            known = self.people.known[each.row.target]
            if known.is_group and not self.people.counts.get(known.name):
                text = gettext("Nobody has it now, and nobody can: %s has no members.")
                return text % known.text
            state = choice_word(OnceTask.State, each.task.availability.state)
            return gettext("Nobody has it now. The task is: %s") % state
        waiting = [job for job in each.jobs if job.status in t.WAITING]
        if not waiting or each.parts.held or not self._may_explain(each):
            return ""
        reasons = explain(waiting[0])  # type: ignore[arg-type]
        return shown_text(translate(reasons[0].detail)) if reasons else ""

    def _may_explain(self, each: StepProgress) -> bool:
        waiting = [
            name for name, other in self.found.items() if other.jobs and not other.parts.held
        ]
        return each.row.name in waiting[:MAX_EXPLAINED]

    # --- people -----------------------------------------------------------------------------------
    def _dispatches(self, each: StepProgress) -> Iterator[Line]:
        if not self.may("dispatch.view_dispatch"):
            return
        for row in each.dispatches:
            yield Line(
                id=f"dispatch-{row.pk}",
                number="",
                name=link(page_url(Dispatch, row.pk), shown_text(row.title, limit=40)),
                state=state_in_list(row),
                who=person(row.executor),
                done=time_left(row) if row.is_open else "",
                began=short_time(row.dispatched_at),
                took=self._took(row.dispatched_at, row.finished_at),
                acts=self._give(row),
                look="flow-part",
            )

    def _give(self, row: Dispatch) -> SafeString:
        if not row.is_open or not self.may("dispatch.operate_dispatch"):
            return SafeString()
        model_admin: Any = admin.site.get_model_admin(Dispatch)
        return link(model_admin.url("give", row.pk), gettext("Give to…"), look="cell-button")

    def _more(self, each: StepProgress, shown: int) -> SafeString | str:
        """How many more of its jobs or hand-outs are open or have failed, with a link to them."""
        if not shown:
            return ""
        row, parts = each.row, each.parts
        more = parts.failed + parts.held + (parts.waiting if row.first is not None else 0) - shown
        if more <= 0:
            return ""
        text = gettext("and %s more") % f"{more:,}"
        if row.first is not None:
            return link(list_url(Job, part_of=row.pk), text)
        return link(list_url(Dispatch, source=OnceTask.source.value, task=row.task), text)


_MAY_SKIP = (FlowRun.Status.RUNNING, FlowRun.Status.FAILED)


def _note(row: FlowStep, what: str, text: object) -> Line:
    note = format_html('<span class="faint"><bdi>{}</bdi></span>', text)
    return Line(f"{what}-{row.pk}", "", note, "", "", "", "", "", "", "flow-note")


def _of_job(job: AnyJob) -> object:
    """The error of a failed job, or where a running one runs."""
    if job.status == t.RUNNING:
        return format_html("<bdi>{}</bdi>", shown_text(job.worker or job.host, limit=MAX_TEXT))
    error = shown_text(reason_of(getattr(job, "error", "")), limit=progress.MAX_ERROR)
    return format_html('<bdi title="{}">{}</bdi>', error, error)


def _look_of(each: StepProgress) -> str:
    """The look of a box: failed also while others of its jobs go on."""
    if each.row.state == State.ACTIVE and each.parts.failed:
        return State.FAILED.value
    return each.row.state


def bar_of(each: StepProgress) -> list[tuple[str, float]]:
    """What is done, failed and open of a step, in percent; [] for what has no parts."""
    parts: Parts = each.parts
    if each.row.kind == shapes.WAIT or each.row.state == State.SKIPPED:
        return []
    whole = max(1, parts.total or 0, parts.done + parts.held)
    counts = {
        State.SUCCEEDED: parts.good,
        State.FAILED: parts.failed,
        State.CANCELLED: parts.cancelled,
        State.ACTIVE: parts.held,
    }
    found = [(look.value, 100 * count / whole) for look, count in counts.items() if count]
    return found or [(State.BLOCKED.value, 0)]


def _bar(each: StepProgress) -> SafeString:
    pieces = (
        format_html('<span class="graph-part-{}" style="width:{}%"></span>', look, f"{width:.1f}")
        for look, width in bar_of(each)
    )
    inner = joined(pieces)
    return (
        format_html('<span class="graph-bar" aria-hidden="true">{}</span>', inner)
        if inner
        else inner
    )
