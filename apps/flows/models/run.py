"""Runs of flows, and the steps of these."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.utils.translation import gettext_lazy as _

from apps.common.fields import KeyField, References
from apps.common.shaped import ShapedField
from apps.dispatch.models import Executor
from apps.flows.models.flow import DEFINITION, MAX_NAME
from apps.flows.models.reach import Sides
from apps.flows.rules import joins, shapes
from apps.flows.rules.definition import Definition
from apps.jobs.models import Bounds, bounds_of

MAX_KEY = 128
MAX_MEMO = 500
MAX_TRACE = 64


class FlowRunQuerySet(models.QuerySet["FlowRun"]):
    def within(self, bounds: Bounds) -> FlowRunQuerySet:
        """Keep the runs that reach no further than the bounds."""
        if bounds.are_open:
            return self
        sides = Sides.of(bounds)
        jobs = Q(kind__in=(FlowStep.Kind.JOB, FlowStep.Kind.JOBS))
        beyond = jobs & Q(target__in=sides.further)
        if sides.types is not None:
            beyond |= jobs & ~Q(target__in=sides.types)
        if sides.executors is not None:
            people = Executor.objects.within(sides.executors).values("name")
            beyond |= Q(kind=FlowStep.Kind.TASK) & ~Q(target__in=people)
        return self.filter(~Exists(FlowStep.objects.filter(beyond, run=OuterRef("pk"))))

    def visible_to(self, operator: AbstractBaseUser | AnonymousUser) -> FlowRunQuerySet:
        """All runs, or those that reach no further than the limits of an operator."""
        return self.within(bounds_of(operator))


class FlowRun(models.Model):
    """One run, with the definition that it began with: it never reads the flow again.

    running → succeeded | failed | cancelling; cancelling → cancelled; failed → running when what
    failed is tried again. `flow` is "" for a definition of its own. `open_key` is `flow|key` while
    the run is open and NULL afterwards: its unique key keeps one run of a key open.
    """

    class Status(models.TextChoices):
        RUNNING = "running", _("running")
        CANCELLING = "cancelling", _("is being cancelled")
        SUCCEEDED = "succeeded", _("succeeded")
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("cancelled")

    refers_to: ClassVar[References] = {"flow": ("flows.Flow",)}

    id = models.BigIntegerField(_("number"), primary_key=True)
    flow = KeyField(_("flow"), max_length=MAX_NAME, blank=True)
    flow_version = models.PositiveIntegerField(_("version of the flow"), default=0)
    definition = ShapedField(_("definition"), shape=DEFINITION)
    params = models.JSONField(_("params"), default=dict)
    status = KeyField(
        _("status"), max_length=12, choices=Status.choices, default=Status.RUNNING.value
    )
    is_paused = models.BooleanField(_("paused"), default=False)
    # Of a cancellation: running jobs and open dispatches are not waited for.
    is_forced = models.BooleanField(_("by force"), default=False)
    key = KeyField(_("key"), max_length=MAX_KEY, blank=True)
    open_key = KeyField(  # type: ignore[misc]
        max_length=MAX_NAME + 1 + MAX_KEY, null=True, unique=True, editable=False
    )
    started_by = models.CharField(_("started by"), max_length=160, blank=True)
    trace_id = KeyField(_("trace"), max_length=MAX_TRACE, blank=True)
    reason = models.CharField(_("reason"), max_length=500, blank=True)
    created_at = models.DateTimeField(_("created"))
    finished_at = models.DateTimeField(_("finished"), null=True)
    version = models.PositiveIntegerField(_("version"), default=1)

    objects = FlowRunQuerySet.as_manager()

    class Meta:
        verbose_name = _("flow run")
        verbose_name_plural = _("flow runs")
        default_permissions = ("view",)
        permissions = [
            ("operate_flowrun", _("Can pause, resume, stop and retry runs of flows")),
            ("override_flow", _("Can skip and finish steps of runs of flows")),
            ("view_payload", _("Can see params and results of flows and their runs")),
        ]
        indexes = [
            # Lists, newest first.
            models.Index(fields=["flow", "id"], name="flow_run_flow"),
            models.Index(fields=["status", "id"], name="flow_run_status"),
            models.Index(fields=["key", "id"], name="flow_run_key"),
            # Runs that failed lately.
            models.Index(fields=["status", "finished_at"], name="flow_run_ended"),
        ]

    # Its name, on its page.
    page_title = ""

    def __str__(self) -> str:
        return self.page_title or str(self.pk)

    @cached_property
    def read(self) -> Definition:
        """The definition, read."""
        return Definition(self.definition)

    @property
    def subject(self) -> str:
        """How what it makes says by whom it was made: `flow:night`."""
        return f"flow:{self.flow or self.pk}"

    @property
    def key_while_open(self) -> Any:
        """Its `open_key` while it is open."""
        return f"{self.flow}|{self.key}" if self.key else None

    @property
    def is_open(self) -> bool:
        return self.status in OPEN


OPEN = (FlowRun.Status.RUNNING.value, FlowRun.Status.CANCELLING.value)


class FlowStep(models.Model):
    """One step of a run; all of them are made with it. The arrows: rules/joins.py.

    `target` is the type of its jobs, or for whom its task is; "" for what waits.
    The jobs of a step are those with its number as `part_of` from `first` to `last`, `made` of
    them, live or in the archive. `task` is its once task. `look_at` is when the sweep looks at it;
    NULL when nobody need; `deadline_at` is when its `within` is over. `by` has skipped or finished
    it.
    """

    class State(models.TextChoices):
        BLOCKED = joins.BLOCKED, _("not begun")
        ACTIVE = joins.ACTIVE, _("active")
        SUCCEEDED = joins.SUCCEEDED, _("succeeded")
        FAILED = joins.FAILED, _("failed")
        SKIPPED = joins.SKIPPED, _("skipped")
        CANCELLED = joins.CANCELLED, _("cancelled")

    class Kind(models.TextChoices):
        JOB = shapes.JOB, _("job")
        JOBS = shapes.JOBS, _("jobs")
        TASK = shapes.TASK, _("task")
        WAIT = shapes.WAIT, _("wait")

    refers_to: ClassVar[References] = {
        "target": ("jobs.JobType", "dispatch.Executor"),
        "first": ("jobs.Job",),
        "last": ("jobs.Job",),
        "task": ("dispatch.OnceTask",),
    }

    id = models.BigIntegerField(_("number"), primary_key=True)
    run = models.ForeignKey(
        FlowRun,
        models.CASCADE,
        related_name="steps",
        db_constraint=False,
        db_index=False,
        verbose_name=_("flow run"),
    )
    name = KeyField(_("name"), max_length=64)
    kind = KeyField(_("kind"), max_length=8, choices=Kind.choices)
    target = KeyField(_("who or what"), max_length=128, blank=True, default="", db_default="")
    state = KeyField(_("state"), max_length=12, choices=State.choices, default=joins.BLOCKED)
    first = models.BigIntegerField(_("first job"), null=True)
    last = models.BigIntegerField(_("last job"), null=True)
    made = models.PositiveIntegerField(_("jobs"), default=0)
    task = models.BigIntegerField(_("task"), null=True)
    look_at = models.DateTimeField(_("next look"), null=True)
    deadline_at = models.DateTimeField(_("deadline"), null=True)
    result = models.JSONField(_("result"), null=True)
    memo = models.CharField(_("why"), max_length=MAX_MEMO, blank=True)
    by = models.CharField(_("by"), max_length=160, blank=True)
    started_at = models.DateTimeField(_("started"), null=True)
    ended_at = models.DateTimeField(_("ended"), null=True)

    class Meta:
        verbose_name = _("flow step")
        verbose_name_plural = _("flow steps")
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["run", "name"], name="flow_step_once"),
        ]
        indexes = [
            # The sweep: what is to be looked at.
            models.Index(fields=["look_at"], name="flow_step_look"),
            # Steps that have been active for long.
            models.Index(fields=["state", "started_at"], name="flow_step_active"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def stands(self) -> joins.Stands:
        return joins.Stands(self.state, bool(self.by))
