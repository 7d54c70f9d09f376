"""One job: reading it, editing it, and what operators do to it."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework.request import Request

from apps.access.bindings import actor_of, masks_payload, unmask
from apps.access.rules.clients import Binding
from apps.common.api.serializer_fields import (
    Boolean,
    Instant,
    Integer,
    JsonObject,
    Name,
    ReasonText,
)
from apps.common.api.serializers import Answer, StrictSerializer
from apps.common.api.views import ApiView, JsonAnswer
from apps.jobs.api.jobs import bounds_of, find
from apps.jobs.api.shapes import JobActOut, JobDetailOut
from apps.jobs.rules.order import HIGHEST_PRIORITY, LOWEST_PRIORITY
from apps.jobs.rules.type_settings import MAX_HOST, MAX_REASON
from apps.jobs.rules.type_snapshot import RANGES
from apps.jobs.services import control
from apps.jobs.services.follow import follow_ups
from apps.journal.models import Source
from apps.journal.services.undo import act_of

_MIN_ATTEMPTS, _MAX_ATTEMPTS = (int(each) for each in RANGES["max_attempts"])


class ReasonBody(StrictSerializer):
    reason = ReasonText(max_length=MAX_REASON)


class JobCancelBody(ReasonBody):
    force = Boolean(
        required=False,
        default=False,
        help_text="Cancel a running job without waiting for its worker; a later result is ignored.",
    )


class JobRetryBody(ReasonBody):
    context = JsonObject(  # type: ignore[assignment]
        required=False, help_text="Another one than before; needs a reason."
    )


class JobChanges(StrictSerializer):
    always = frozenset({"version", "reason"})

    version = Integer(min_value=1, max_value=2**31 - 1, help_text="As read before.")
    reason = ReasonText(max_length=MAX_REASON)
    run_at = Instant(required=False)
    priority = Integer(min_value=LOWEST_PRIORITY, max_value=HIGHEST_PRIORITY, required=False)
    max_attempts = Integer(min_value=_MIN_ATTEMPTS, max_value=_MAX_ATTEMPTS, required=False)
    context = JsonObject(required=False)  # type: ignore[assignment]
    affinity_host = Name(
        max_length=MAX_HOST,
        required=False,
        allow_blank=True,
        help_text="The host of a registered worker; empty: any.",
    )


class JobView(ApiView):
    """One job by its number, also from the archive. PATCH edits a waiting job."""

    scopes = {"GET": "read", "PATCH": "operate"}
    bindings = frozenset(Binding)
    bodies = {"patch": JobChanges}
    answers = {"get": JobDetailOut, "patch": JobActOut}
    problems = (404, 409)

    def get(self, request: Request, number: str) -> JsonAnswer:
        return _answer(request, find(request, number))

    def patch(self, request: Request, number: str) -> JsonAnswer:
        job, body = find(request, number), self.read_body()
        unmask(request, body, "context", job.context)
        return _acted(
            request,
            control.edit(
                job=job,
                version=body.pop("version"),
                reason=body.pop("reason"),
                changes=body,
                actor=actor_of(request),
            ),
        )


class ControlView(ApiView):
    """Base of the endpoints that change the state of one job."""

    scopes = {"POST": "operate"}
    bindings = frozenset(Binding)
    bodies = {"post": ReasonBody}
    answers = {"post": JobActOut}
    problems = (404, 409)
    act: ClassVar[Any]

    def post(self, request: Request, number: str) -> JsonAnswer:
        job, body = find(request, number), self.read_body()
        unmask(request, body, "context", job.context)
        return _acted(request, type(self).act(job=job, **body, actor=actor_of(request)))


class CancelView(ControlView):
    """Cancel a job: a waiting one at once, a running one when its worker notices."""

    bodies = {"post": JobCancelBody}
    act = staticmethod(control.cancel)


class RetryView(ControlView):
    """Run a finished job again; it comes back from the archive."""

    bodies = {"post": JobRetryBody}
    act = staticmethod(control.retry)


class RunNowView(ControlView):
    """Make a waiting job due now."""

    operations = {"post": "run_job_now"}
    act = staticmethod(control.run_now)


class MarkDoneView(ControlView):
    """Mark a job as succeeded that was done by other means."""

    operations = {"post": "mark_job_done"}
    act = staticmethod(control.mark_done)


def _acted(request: Request, job: Any) -> JsonAnswer:
    """The job after an act of the key, with what takes that back."""
    job.undo = act_of(Source.JOB, job.pk, actor_of(request))
    return _answer(request, job, JobActOut)


def _answer(request: Request, job: Any, shape: type[Answer] = JobDetailOut) -> JsonAnswer:
    job.follow_ups = follow_ups(job, bounds=bounds_of(request))
    return JsonAnswer(shape.of(job, masks=masks_payload(request)))
