"""The filters of jobs that lists, REST and bulk runs share."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from apps.common import ids as made_ids
from apps.common.filtersets import (
    Choice,
    Choices,
    Door,
    Id,
    Instant,
    Key,
    Keys,
    MadeBefore,
    MadeSince,
    Numbers,
    Payload,
    RowFilters,
    Text,
    WholeNumber,
)
from apps.common.masking.search import says
from apps.common.readers import is_key, read_number
from apps.jobs.models import ArchivedJob, Job, JobType
from apps.jobs.rules.order import HIGHEST_PRIORITY, LOWEST_PRIORITY
from apps.jobs.rules.submission import MAX_KEY, MAX_USER
from apps.jobs.services.parts import parts

_PROGRAMS = Door.REST | Door.BULK
# The ids of one submission lie within so much of its first.
_SPAN = made_ids.lowest_id_at(made_ids.EPOCH + timedelta(milliseconds=100))
_PRIORITIES = {"lowest": LOWEST_PRIORITY, "highest": HIGHEST_PRIORITY}


def _of_lane(rows: Any, _name: str, lane: str) -> Any:
    types = JobType.objects.filter(lane=lane).values_list("name", flat=True)
    return rows.filter(type__in=list(types))


def _says(rows: Any, column: str, text: str) -> Any:
    return rows.filter(says(column, text))


def _of_group(rows: Any, _name: str, first: int) -> Any:
    """A short range of the primary key."""
    return rows.filter(pk__gte=first, pk__lt=first + _SPAN, together=first)


def _of_part(rows: Any, _name: str, number: int) -> Any:
    """The same, as far as it goes."""
    first, last = parts.span(number)
    return rows.filter(pk__gte=first, pk__lte=last, part_of=number)


def _is_or_says(rows: Any, _name: str, text: str) -> Any:
    wanted = says("memo", text)
    if is_key(text, MAX_KEY) or is_key(text, MAX_USER):
        wanted |= Q(key=text) | Q(user_id=text)
    if (number := read_number(text)) is not None:
        wanted |= Q(pk=number)
    return rows.filter(wanted)


class JobFilters(RowFilters):
    """`text` is part of the last error, or a number, key or user in full; `memo` is part of the
    last error only.

    Indexes have types with keys, errors, and the states of few jobs (find._narrow_by_index); the
    bounds of ids shorten any other search.
    """

    period = ("created_after", "created_before")
    in_order = (
        frozenset({"together"}),
        frozenset({"part_of"}),
        frozenset({"type", "key"}),
        frozenset({"type", "error_key"}),
    )

    ids = Numbers("pk", label=_("numbers"), doors=Door.ADDRESS | Door.BULK)
    together = Id(
        label=_("everywhere"),
        method=_of_group,
        doors=Door.LIST | Door.REST,
        help_text="The first of jobs that were submitted everywhere together.",
    )
    part_of = Id(
        label=_("part of"),
        method=_of_part,
        help_text="The jobs of a step of a flow, by the number of the step.",
    )
    type = Keys(label=_("type"))
    status = Choices(Job.Status.choices, label=_("status"))
    lane = Choice(
        JobType.Lane.choices, label=_("speed class"), method=_of_lane, doors=Door.LIST | Door.BULK
    )
    key = Key(label=_("key"))
    user_id = Key(label=_("user"), listed="user")
    host = Key(label=_("host"))
    error_key = Key(label=_("error key"))
    worker = Key(label=_("worker"))
    client = Key(label=_("API key"), doors=Door.LIST | Door.BULK)
    where = Payload(("context", "result"), label=_("payload"))
    stage = Key(label=_("stage"), doors=_PROGRAMS)
    priority_from = WholeNumber(
        "priority", "gte", label=_("priority from"), doors=Door.BULK, **_PRIORITIES
    )
    priority_to = WholeNumber(
        "priority", "lte", label=_("priority to"), doors=Door.BULK, **_PRIORITIES
    )
    created_after = MadeSince("created_at", label=_("created from"), doors=_PROGRAMS)
    created_before = MadeBefore("created_at", label=_("created before"), doors=_PROGRAMS)
    run_after = Instant("run_at", "gte", label=_("next run from"), doors=Door.BULK)
    run_before = Instant("run_at", "lt", label=_("next run before"), doors=Door.BULK)
    finished_after = Instant("finished_at", "gte", label=_("finished from"), doors=_PROGRAMS)
    finished_before = Instant("finished_at", "lt", label=_("finished before"), doors=_PROGRAMS)
    memo = Text(
        label=_("error text"),
        method=_says,
        doors=Door.REST,
        help_text="Text within the memo, with its secrets masked.",
    )
    text = Text(label=_("search"), method=_is_or_says, listed="q", doors=Door.ADDRESS)

    class Meta:
        model = Job
        fields = ()


class ArchivedJobFilters(JobFilters):
    """Indexes of the archive have types, keys, errors and parts; its list examines the newest rows
    by the others, which REST does not take."""

    left_out = frozenset(
        {"lane", "host", "worker", "client", "stage", "memo", "finished_after", "finished_before"}
    )

    status = Choices(Job.Status.choices, label=_("status"), doors=Door.LIST)
    user_id = Key(label=_("user"), listed="user", doors=Door.LIST)

    class Meta:
        model = ArchivedJob
        fields = ()
