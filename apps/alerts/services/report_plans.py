"""Report plans: what people do with them. Each change is one transaction with one entry in the
journal. Whoever saves a plan owns it: its reports show what that person may see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.http import QueryDict

from apps.alerts.models import MAX_QUERY, Channel, ReportPlan
from apps.alerts.rules.faults import plan_faults
from apps.common import clock
from apps.common.db import transactional
from apps.common.errors import FieldError, Invalid, refusal
from apps.common.messages import Message as _
from apps.journal.services.edit import Revision, record_edit, take_version
from apps.reports.services.choice import PARAMETERS, Choice
from apps.reports.services.sheet import View

FIELDS = ("title", "query", "rule", "time_zone", "enabled")
# A change of these means other times.
_WHEN = ("rule", "time_zone")
User = AbstractBaseUser | AnonymousUser


def query_of(text: str) -> str:
    """The part of an address after its question mark, or the text itself."""
    before, mark, query = text.strip().partition("?")
    return query.partition("#")[0] if mark else before


def choice_of(query: str, view: View, now: datetime) -> Choice:
    """The report of the query as its owner sees it, up to `now`; Invalid when it is none that can
    be sent again and again."""
    choice = view.choice_of(QueryDict(query), now)
    if choice.problems:
        raise Invalid.field("query", choice.problems[0])
    if not choice.preset:
        text = _(
            "This report has fixed times and would always be the same; choose a period such as "
            "24 hours."
        )
        raise Invalid.field("query", text)
    return choice


def faults(given: Mapping[str, Any], *, owner: User, kept: Any = None) -> list[FieldError]:
    """The mistakes in the values of a plan; values left out take their defaults. `kept` is the
    rule that it has."""
    values = {**_values(ReportPlan()), **given}
    return [*plan_faults(values, kept=kept), *_query_faults(str(values["query"]), owner)]


def _query_faults(query: str, owner: User) -> Iterator[FieldError]:
    if len(query) > MAX_QUERY:
        yield FieldError("query", "invalid", _("This address is too long; leave out filters."))
        return
    asked = query_of(query)
    if unknown := [name for name in QueryDict(asked) if name not in PARAMETERS]:
        text = _(
            "{name} is no part of a report; copy the address of a report page.",
            name=f"{unknown[0]!r:.60}",
        )
        yield FieldError("query", "invalid", text)
        return
    try:
        choice_of(asked, View.of(owner), clock.now())
    except Invalid as error:
        yield from error.errors


@transactional
def create_plan(
    *, channels: Iterable[Channel] = (), owner: Any, actor: str, **values: Any
) -> ReportPlan:
    """A new plan; values left out take their defaults. Invalid names every wrong one."""
    now = clock.now()
    checked = _checked(values, owner=owner, now=now)
    plan = ReportPlan.made(**checked, start_at=_start_at(now), now=now, actor=actor)
    plan.next_at = _next_at(plan, now)
    plan.save(force_insert=True)
    plan.channels.set(channels)
    after = {**plan.journal_values(), "owner": plan.journal_value("owner")}
    record_edit(plan, "report_planned", now=now, actor=actor, after=after)
    return plan


@transactional
def update_plan(
    *, plan: ReportPlan, changes: Mapping[str, Any], version: int, owner: Any, actor: str
) -> ReportPlan:
    """Change the named values, `channels` among them, and the owner, and nothing else; nothing of
    the past is sent. Conflict when `version` is not the current one."""
    now = clock.now()
    revision = Revision.of(plan, version)
    current = revision.row
    if not {*_WHEN}.isdisjoint(changes) or (changes.get("enabled") and not current.enabled):
        current.start_at = _start_at(now)
    values = {**_values(current), **changes}
    revision.fill(_checked(values, owner=owner, now=now, kept=current.rule))
    current.next_at = _next_at(current, now)
    revision.write("report_plan_changed", now=now, actor=actor)
    return current


@transactional
def delete_plan(*, plan: ReportPlan, actor: str) -> None:
    """Delete a plan with its runs and their deliveries."""
    current = take_version(plan)
    before = {"title": current.title}
    record_edit(current, "report_plan_deleted", now=clock.now(), actor=actor, before=before)
    current.delete()


def next_times(fields: Mapping[str, Any], limit: int) -> list[datetime]:
    """The next times at which a plan with these valid fields would be due."""
    now = clock.now()
    return ReportPlan(start_at=_start_at(now), **fields).times_after(now, limit)


# --- the steps ------------------------------------------------------------------------------------
def _start_at(now: datetime) -> datetime:
    """The begin of the present second, as a rule counted from the next one would be due at once."""
    return now.replace(microsecond=0)


def _checked(
    given: Mapping[str, Any], *, owner: Any, now: datetime, kept: Any = None
) -> dict[str, Any]:
    """The values with their owner, and the query as it is kept. Invalid names every wrong one."""
    if found := faults(given, owner=owner, kept=kept):
        raise refusal(found)
    query = choice_of(query_of(given["query"]), View.of(owner), now).query()[1:]
    return {**given, "query": query, "owner": owner}


def _next_at(plan: ReportPlan, now: datetime) -> datetime | None:
    plan.__dict__.pop("recurrence", None)
    return next(iter(plan.times_after(now, 1)), None) if plan.enabled else None


def _values(plan: ReportPlan) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in FIELDS}
