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
from apps.alerts.services.record import record
from apps.common import clock
from apps.common.db import take_version, transactional
from apps.common.errors import FieldError, Invalid, refusal
from apps.common.messages import Message as _
from apps.reports.services.choice import PARAMETERS, Choice
from apps.reports.services.sheet import View

FIELDS = ("title", "query", "rule", "time_zone", "enabled")
# A change of these means other times.
_WHEN = ("rule", "time_zone")
User = AbstractBaseUser | AnonymousUser


def query_of(text: str) -> str:
    """What stands after the question mark of an address, or the text itself."""
    before, mark, query = text.strip().partition("?")
    return query.partition("#")[0] if mark else before


def choice_of(query: str, owner: User, now: datetime) -> Choice:
    """The report of the query as the owner may see it, up to `now`; Invalid when it is none that
    can be sent again and again."""
    choice = View.of(owner).choice_of(QueryDict(query), now)
    if choice.problems:
        raise Invalid.field("query", choice.problems[0])
    if not choice.preset:
        text = _(
            "This report has fixed times and would always be the same; choose a period such as "
            "24 hours."
        )
        raise Invalid.field("query", text)
    return choice


def faults(given: Mapping[str, Any], *, owner: User) -> list[FieldError]:
    """What is wrong with the values of a plan; left out ones are the usual ones."""
    values = {**_values(ReportPlan()), **given}
    return [*plan_faults(values), *_query_faults(str(values["query"]), owner)]


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
        choice_of(asked, owner, clock.now())
    except Invalid as error:
        yield from error.errors


@transactional
def create_plan(
    *, channels: Iterable[Channel] = (), owner: Any, actor: str, **values: Any
) -> ReportPlan:
    """A new plan; values left out take their defaults. Invalid names every wrong one."""
    now = clock.now()
    plan = ReportPlan(created_at=now, created_by=actor[:160], start_at=_start_at(now))
    _fill(plan, values, owner=owner, now=now, actor=actor)
    plan.save(force_insert=True)
    plan.channels.set(channels)
    record(plan, "report_planned", now=now, actor=actor, after=_shown(plan))
    return plan


@transactional
def update_plan(
    *, plan: ReportPlan, changes: Mapping[str, Any], version: int, owner: Any, actor: str
) -> ReportPlan:
    """Change the named values, `channels` among them, and the owner, and nothing else; nothing of
    the past is sent. Conflict when `version` is not the current one."""
    now = clock.now()
    current = take_version(ReportPlan, plan.pk, version)
    before = _shown(current)
    given = {name: value for name, value in changes.items() if name != "channels"}
    if not {*_WHEN}.isdisjoint(given) or (given.get("enabled") and not current.enabled):
        current.start_at = _start_at(now)
    current.version += 1
    _fill(current, {**_values(current), **given}, owner=owner, now=now, actor=actor)
    current.save()
    if "channels" in changes:
        current.channels.set(changes["channels"])
    after = _shown(current)
    changed = [name for name in after if after[name] != before[name]]
    if changed:
        record(
            current,
            "report_plan_changed",
            now=now,
            actor=actor,
            before={name: before[name] for name in changed},
            after={name: after[name] for name in changed},
        )
    return current


@transactional
def delete_plan(*, plan: ReportPlan, actor: str) -> None:
    """Delete a plan with its runs and their deliveries."""
    current = take_version(ReportPlan, plan.pk, None)
    before = {"title": current.title}
    record(current, "report_plan_deleted", now=clock.now(), actor=actor, before=before)
    current.delete()


def next_times(fields: Mapping[str, Any], limit: int) -> list[datetime]:
    """When a plan with these valid fields would be due next."""
    now = clock.now()
    return ReportPlan(start_at=_start_at(now), **fields).times_after(now, limit)


# --- the steps ------------------------------------------------------------------------------------
def _start_at(now: datetime) -> datetime:
    """The present second: a rule counted from the next one would be due at once."""
    return now.replace(microsecond=0)


def _fill(
    plan: ReportPlan, values: Mapping[str, Any], *, owner: Any, now: datetime, actor: str
) -> None:
    if found := faults(values, owner=owner):
        raise refusal(found)
    for name, value in values.items():
        setattr(plan, name, value)
    plan.__dict__.pop("recurrence", None)
    plan.query = choice_of(query_of(plan.query), owner, now).query()[1:]
    plan.owner = owner
    plan.updated_at, plan.updated_by = now, actor[:160]
    plan.next_at = next(iter(plan.times_after(now, 1)), None) if plan.enabled else None


def _values(plan: ReportPlan) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in FIELDS}


def _shown(plan: ReportPlan) -> dict[str, Any]:
    """As the journal keeps them."""
    channels = sorted(plan.channels.values_list("name", flat=True)) if plan.pk else []
    owner = "" if plan.owner is None else plan.owner.get_username()
    return {**_values(plan), "channels": channels, "owner": owner}
