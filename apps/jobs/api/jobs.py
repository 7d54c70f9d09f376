"""Submitting and listing jobs, and the journal of a job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer
from rest_framework.request import Request

from apps.access.bindings import actor_of, client_of, key_of, masks_payload, unmask
from apps.access.rules.clients import Binding
from apps.common import logs
from apps.common.api.filter_fields import FilterQuery
from apps.common.api.paging import MAX_EXAMINED, KeysetPage, PageQuery
from apps.common.api.serializer_fields import (
    MISSING,
    Boolean,
    Choice,
    Instant,
    Integer,
    Items,
    JsonObject,
    Name,
)
from apps.common.api.serializers import StrictSerializer
from apps.common.api.views import ApiView, JsonAnswer
from apps.common.errors import FieldError, Invalid, Mistakes, NotFound, PlatformError, refusal
from apps.common.readers import read_id
from apps.jobs.api.shapes import (
    EntryOut,
    ListedJobOut,
    SubmittedManyOut,
    SubmittedOut,
)
from apps.jobs.models import AnyJob, ArchivedJob, Job
from apps.jobs.models.bounds import Bounds
from apps.jobs.rules import submission
from apps.jobs.rules.order import HIGHEST_PRIORITY, LOWEST_PRIORITY
from apps.jobs.rules.type_settings import MAX_NAME
from apps.jobs.rules.type_snapshot import RANGES
from apps.jobs.services.find import find_job
from apps.jobs.services.job_filters import ArchivedJobFilters, JobFilters
from apps.jobs.services.request import Request as Repeatable
from apps.jobs.services.submit import MAX_AT_ONCE, Submission
from apps.jobs.services.submit_once import submit_once
from apps.journal.models import JournalEntry, Source

MAX_REQUEST = 64
_MAX_DELAY = int(submission.MAX_DELAY.total_seconds())
_MIN_ATTEMPTS, _MAX_ATTEMPTS = (int(each) for each in RANGES["max_attempts"])


class JobBody(StrictSerializer):
    never = {"required": ["run_at", "delay"]}

    type = Name(max_length=MAX_NAME)
    key = Name(max_length=submission.MAX_KEY, required=False, allow_blank=True)
    context = JsonObject(required=False)  # type: ignore[assignment]
    run_at = Instant(required=False, help_text="Either this or delay. Now if both are missing.")
    delay = Integer(min_value=0, max_value=_MAX_DELAY, required=False, help_text="Seconds.")
    priority = Integer(min_value=LOWEST_PRIORITY, max_value=HIGHEST_PRIORITY, required=False)
    max_attempts = Integer(min_value=_MIN_ATTEMPTS, max_value=_MAX_ATTEMPTS, required=False)
    unique = Boolean(
        required=False, help_text="Submit no second job while one of this type and key is open."
    )
    unique_for = Integer(
        min_value=1,
        max_value=_MAX_DELAY,
        required=False,
        help_text="A unique job keeps its key for so many seconds after its end, at most "
        "JOB_ARCHIVE_AFTER.",
    )
    on_twin = Choice(
        choices=submission.ON_TWIN,
        required=False,
        help_text="What becomes of a waiting job that has the key: return it as it is, replace its "
        "context, priority and time, or move it to the time of this one if that is later. One that "
        "runs or has ended is returned.",
    )
    user_id = Name(max_length=submission.MAX_USER, required=False, allow_blank=True)
    stage = Name(max_length=submission.MAX_STAGE, required=False)
    route_key = Name(max_length=submission.MAX_ROUTE, required=False, allow_blank=True)
    trace_id = Name(max_length=submission.MAX_TRACE, required=False, allow_blank=True)


class _Repeatable(StrictSerializer):
    request_id = Name(
        max_length=MAX_REQUEST,
        required=False,
        help_text="A repeat with the same one within a day gets the first answer and makes no "
        "other job, whatever has become of the first.",
    )


class OneJobBody(_Repeatable, JobBody):
    everywhere = Boolean(
        required=False,
        help_text="Submit the job once for each host where a worker is alive that serves the type.",
    )


class JobBatchBody(_Repeatable):
    jobs = Items(child=JobBody(), max_items=MAX_AT_ONCE)


class SubmitBody(StrictSerializer):
    """The fields of one job, or `jobs`; with either a `request_id`."""

    shapes = (OneJobBody, JobBatchBody)


class JobQuery(FilterQuery, PageQuery):
    filters, archive = JobFilters, ArchivedJobFilters

    archived = Boolean(
        required=False,
        help_text="true: the jobs of the archive, by part_of, type, key, error_key, where and "
        "times of creation.",
    )


_ONE_OR_MANY = PolymorphicProxySerializer(
    component_name="SubmittedOneOrMany",
    serializers=[SubmittedOut, SubmittedManyOut],
    resource_type_field_name=None,
)


class JobsView(ApiView):
    """List jobs, newest first; submit one job, or up to 1,000 of which all or none are made.

    A page of a filtered list may be short or empty although `next` is not null: then no job
    matched among those searched so far. Jobs that ended long ago are in the archive, a list of its
    own.
    """

    operations = {"post": "submit_jobs"}
    scopes = {"GET": "read", "POST": "submit"}
    bindings = frozenset(Binding)
    queries = {"get": JobQuery}
    bodies = {"post": SubmitBody}
    answers = {"get": ListedJobOut(many=True), "post": {201: _ONE_OR_MANY, 200: _ONE_OR_MANY}}
    body_limit = "batch"
    problems = (409, 422)

    def get(self, request: Request) -> JsonAnswer:
        page = KeysetPage(request, self.query)
        masks = masks_payload(request)
        wanted = JobQuery.wanted(self.query)
        jobs: Any = ArchivedJob.objects if self.query.get("archived") else Job.objects
        indexed, bounds = JobFilters.indexed(wanted), bounds_of(request)
        first = indexed | {*JobFilters.period}
        within = JobFilters.narrow(jobs.defer("context", "checkpoint"), wanted.only(first))
        found = JobFilters.narrow(within, wanted.without(*first)).within(bounds)
        if wanted.given.keys() <= first and (indexed or bounds.are_open):
            # They have an index, in the order of the list.
            rows = page.rows(found)
        else:
            rows = page.rows_among(within, found, limit=MAX_EXAMINED)
        shown = [ListedJobOut.of(row, masks=masks) for row in rows]
        return JsonAnswer(page.answer(shown))

    def post(self, request: Request) -> JsonAnswer:
        body = self.read_body()
        # It reads the body before masks are taken from it.
        asked = Repeatable(client_of(request), body.pop("request_id", ""), body)
        everywhere = body.pop("everywhere", False)
        jobs, is_batch = _submissions(request, body)
        if not is_batch and jobs[0].trace_id:
            logs.note(trace_id=jobs[0].trace_id)
        try:
            made = submit_once(
                jobs,
                request=asked,
                by=actor_of(request),
                bounds=bounds_of(request),
                everywhere=everywhere,
            )
        except PlatformError as error:
            if not is_batch:
                raise _without_position(error) from error
            raise
        if everywhere or is_batch:
            answer = SubmittedManyOut.of({"jobs": made})
        else:
            answer = SubmittedOut.of(made[0])
        status = 201 if any(each.created for each in made) else 200
        return JsonAnswer(answer, status=status)


def _submissions(request: Request, body: dict[str, Any]) -> tuple[list[Submission], bool]:
    """The jobs of the body, and whether it is a batch."""
    if "jobs" in body:
        if len(body) > 1:
            raise Invalid.field("jobs", "Send one job, or jobs alone.")
        mistakes = Mistakes()
        for position, each in enumerate(body["jobs"]):
            with mistakes:
                unmask(request, each, "context", field=f"jobs[{position}].context")
        mistakes.raise_all()
        return [submission_of(each) for each in body["jobs"]], True
    if "type" not in body:
        raise refusal([FieldError("type", "invalid", MISSING)])
    unmask(request, body, "context")
    return [submission_of(body)], False


def submission_of(body: dict[str, Any]) -> Submission:
    """The job that a body of this shape wants."""
    if "delay" in body:
        body["delay"] = timedelta(seconds=body["delay"])
    return Submission(**body)


def _without_position(error: PlatformError) -> PlatformError:
    """The error of a batch of one, without its position."""
    prefix = "jobs[0]."
    errors = [FieldError(e.field.removeprefix(prefix), e.code, e.message) for e in error.errors]
    return type(error)(error.detail.replace(prefix, ""), errors=errors)


def bounds_of(request: Request) -> Bounds:
    """The jobs that the API key may reach."""
    return Bounds.of_key(key_of(request))


def find(request: Request, number: str) -> AnyJob:
    """The job with this number; NotFound also when it is outside the bindings of the key."""
    pk = read_id(number)
    if pk is None:
        raise NotFound(f"There is no job {number[:40]!r}.")
    logs.note(job=number)
    return find_job(pk, bounds=bounds_of(request))


class JournalView(ApiView):
    """The journal of a job, oldest first: ends of attempts and what operators did."""

    scopes = {"GET": "read"}
    bindings = frozenset(Binding)
    queries = {"get": PageQuery}
    answers = {"get": EntryOut(many=True)}
    problems = (404,)

    def get(self, request: Request, number: str) -> JsonAnswer:
        page = KeysetPage(request, self.query, ascending=True)
        masks = masks_payload(request)
        entries = JournalEntry.objects.timeline(Source.JOB, find(request, number).pk)
        return JsonAnswer(
            page.answer([EntryOut.of(row, masks=masks) for row in page.rows(entries)])
        )
