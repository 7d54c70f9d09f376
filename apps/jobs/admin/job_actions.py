"""What operators do to jobs, on the list for many of them and on the page for one.

Which buttons a page has is read from the arrow table; the services guard by the same table.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin import PlatformModelAdmin, ReasonForm, reason_action
from apps.common.admin.theme import SelectWidget
from apps.jobs.conf import conf
from apps.jobs.models import Job
from apps.jobs.rules import order, transitions
from apps.jobs.services import control
from apps.jobs.services.facts import hosts

# Those that suit many jobs at once; the others concern one, on its page.
IN_BULK = {"retry", "cancel", "run_now"}


class HostForm(ReasonForm):
    host = forms.ChoiceField(
        label=_("Host"),
        help_text=_("Only a worker there takes it; these hosts have registered workers."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [(host, host) for host in hosts()]
        chosen: Any = self.fields["host"]
        chosen.widget = SelectWidget(choices=choices)
        chosen.choices = choices


def _may(arrow: str) -> Any:
    return lambda job: transitions.is_legal(arrow, job.status)


def _is_cancellable(job: Job) -> bool:
    if transitions.is_legal("request_cancel", job.status):
        return not job.cancel_requested
    return transitions.is_legal("cancel", job.status)


def _gains_nothing(job: Job) -> bool:
    """Ready, and already at least as far ahead as running it now would put it."""
    place = order.order_key(
        clock.now(), priority=job.priority, attempts=0, weight_ms=conf.JOB_PRIORITY_WEIGHT_MS
    )
    return job.status == transitions.READY and job.order_key <= place


class JobActions(PlatformModelAdmin):
    """Before the base of the admin of jobs."""

    actions = ("retry", "retry_on_host", "run_now", "cancel", "force_cancel", "mark_done")

    def has_override_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """May this person say what became of a job against what its worker says?"""
        return self._has_own_permission(request, "override_job")

    def get_actions(self, request: HttpRequest) -> Any:
        found = super().get_actions(request)
        return {name: action for name, action in found.items() if name in IN_BULK}

    @reason_action(
        description=_("Retry"),
        permission="operate",
        question=_("They run again at once, with all their attempts, from the last checkpoint."),
        icon="replay",
        offered=_may("retry"),
    )
    def retry(self, row: Job, *, reason: str, actor: str) -> object:
        return control.retry(job=row, actor=actor, reason=reason)

    @reason_action(
        description=_("Retry on host…"),
        permission="operate",
        question=_("It runs again on this host and no other, with all its attempts."),
        icon="dns",
        offered=_may("retry"),
        form=HostForm,
    )
    def retry_on_host(self, row: Job, *, host: str, reason: str, actor: str) -> object:
        return control.retry(job=row, actor=actor, reason=reason, host=host)

    @reason_action(
        description=_("Run now"),
        permission="operate",
        question=_("They no longer wait for their time or for a failure to be over."),
        icon="bolt",
        offered=_may("run_now"),
    )
    def run_now(self, row: Job, *, reason: str, actor: str) -> object:
        if _gains_nothing(row):
            return False
        return control.run_now(job=row, actor=actor, reason=reason)

    @reason_action(
        description=_("Cancel the job"),
        permission="operate",
        question=_(
            "Waiting ones end at once. Running ones are asked to stop, and end when their worker "
            "notices."
        ),
        icon="cancel",
        is_dangerous=True,
        offered=_is_cancellable,
    )
    def cancel(self, row: Job, *, reason: str, actor: str) -> object:
        if row.status == transitions.RUNNING and row.cancel_requested:
            return False
        if row.status == transitions.CANCELLED:
            return False
        return control.cancel(job=row, actor=actor, reason=reason)

    @reason_action(
        description=_("Cancel by force"),
        permission="override",
        question=_(
            "It is cancelled now, whatever its worker does. What that reports later is kept in the "
            "history and changes nothing; its work may still have effects."
        ),
        icon="dangerous",
        is_dangerous=True,
        offered=_may("force_cancel"),
    )
    def force_cancel(self, row: Job, *, reason: str, actor: str) -> object:
        if row.status == transitions.CANCELLED:
            return False
        return control.cancel(job=row, actor=actor, reason=reason, force=True)

    @reason_action(
        description=_("Mark done"),
        permission="override",
        question=_("It counts as succeeded without running. Only a retry undoes this."),
        icon="task_alt",
        is_dangerous=True,
        offered=_may("mark_done"),
    )
    def mark_done(self, row: Job, *, reason: str, actor: str) -> object:
        if row.status == transitions.SUCCEEDED:
            return False
        return control.mark_done(job=row, actor=actor, reason=reason)
