"""The log of a job."""

from __future__ import annotations

from rest_framework.request import Request

from apps.access.bindings import masks_payload
from apps.access.rules.clients import Binding
from apps.common.api.serializer_fields import Text
from apps.common.api.serializers import StrictSerializer
from apps.common.api.views import ApiView, JsonAnswer
from apps.common.errors import Invalid
from apps.jobs.api.jobs import find
from apps.jobs.api.shapes import LogOut
from apps.jobs.services import job_log


class LogQuery(StrictSerializer):
    after = Text(
        max_length=40,
        required=False,
        allow_blank=True,
        help_text="What follows this; from `after` of an answer.",
    )


class LogView(ApiView):
    """What the attempts of a job have logged, the oldest first; while it runs, ask again with
    `after`. A worker sends its lines every two seconds and with the end of the attempt."""

    scopes = {"GET": "read"}
    bindings = frozenset(Binding)
    queries = {"get": LogQuery}
    answers = {"get": LogOut}
    problems = (404,)

    def get(self, request: Request, number: str) -> JsonAnswer:
        after = self.query.get("after", "")
        place = job_log.place_of(after)
        if place is None:
            raise Invalid.field("after", "This is no place in a log; take it from an answer.")
        # Read before its log: one that has ended has all of that.
        job = find(request, number)
        parts, more = job_log.parts_after(job.pk, place)
        found = {
            "attempts": job_log.read(parts, masked=masks_payload(request)),
            "after": job_log.place_behind(parts) or after,
            "more": more,
            "status": job.status,
        }
        return JsonAnswer(LogOut.of(found))
