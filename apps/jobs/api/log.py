"""The log of a job: what workers send of it, and reading it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request

from apps.access.bindings import masks_payload
from apps.access.rules.clients import Binding
from apps.common import clock
from apps.common.api.serializer_fields import Integer, Lines, Text
from apps.common.api.serializers import StrictSerializer
from apps.common.api.views import ApiView, JsonAnswer
from apps.common.errors import Invalid
from apps.jobs.api.jobs import find
from apps.jobs.api.shapes import LogOut
from apps.jobs.rules.job_log import LogLines, lines_of
from apps.jobs.services import job_log

LOG = ("log", "log_at", "log_left_out")
_MAX_LINES = 2**31 - 1
# More than there is room for, with their times.
_AT_ONCE = 3_000


class LogBody(StrictSerializer):
    """The lines that a worker adds to the log of an attempt."""

    log = Lines(
        max_items=_AT_ONCE,
        required=False,
        help_text="Lines that the attempt has logged since the last ones. One that begins with a "
        "time such as `2026-11-20T09:30:00.000Z ` has that time. Of an attempt 64 KB are kept.",
    )
    log_at = Integer(
        min_value=0,
        max_value=_MAX_LINES,
        required=False,
        help_text="How many lines came before these, so that none is kept twice.",
    )
    log_left_out = Integer(
        min_value=0,
        max_value=_MAX_LINES,
        required=False,
        help_text="How many lines behind these the worker has left out itself.",
    )


def log_lines_in(body: Mapping[str, Any]) -> LogLines | None:
    """Read the log lines of the body; None without any."""
    lines = lines_of(body.get("log", ()), clock.now())
    return LogLines(lines, body.get("log_at"), body.get("log_left_out", 0)) or None


class LogQuery(StrictSerializer):
    after = Text(
        max_length=40,
        required=False,
        allow_blank=True,
        help_text="What follows this; from `after` of an answer.",
    )


class LogView(ApiView):
    """Read the log of the attempts of a job, oldest first; while it runs, ask again with
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
            raise Invalid.field(
                "after", "after is no place in a log; take it from an answer, or leave it out."
            )
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
