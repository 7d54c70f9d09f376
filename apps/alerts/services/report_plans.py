"""Report plans: what people do with them. A plan is a schedule: what is not here, such as a pause,
is what is done to any schedule. Whoever saves a plan owns it: its reports show what that person
may see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.http import QueryDict

from apps.alerts.models import MAX_QUERY, Channel, ReportPlan
from apps.alerts.services.notify import REPORT_TYPE, ensure_type
from apps.common import clock
from apps.common.db import transactional
from apps.common.errors import Invalid, Mistakes, NotFound
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.dispatch.rules.recurrence import EveryMinutes, parse_rule
from apps.jobs.services.submit_check import PLATFORM
from apps.reports.permissions import may_report
from apps.reports.services.choice import PARAMETERS, Choice
from apps.reports.services.sheet import View
from apps.schedules.services import schedules
from apps.schedules.services.validation import validate

_OF_SCHEDULE = ("title", "rule", "time_zone")
GONE = _("The report plan does not exist any more.")
DELETED = _("Its owner was deleted. Save the plan to send it with your rights.")
DISABLED = _("Its owner may not sign in any more. Save the plan to send it with your rights.")
FORBIDDEN = _("Its owner may not see reports any more. Save the plan to send it with your rights.")
NO_CHANNEL = _("None of its channels is enabled.")
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


def kept_query(text: str, owner: User) -> str:
    """The query of a report page as a plan keeps it; Invalid when it is no report of the owner that
    can be sent again and again."""
    if len(text) > MAX_QUERY:
        raise Invalid.field("query", _("This address is too long; leave out filters."))
    query = query_of(text)
    if unknown := [name for name in QueryDict(query) if name not in PARAMETERS]:
        message = _(
            "{name} is no part of a report; copy the address of a report page.",
            name=f"{unknown[0]!r:.60}",
        )
        raise Invalid.field("query", message)
    return choice_of(query, View.of(owner), clock.now()).query()[1:]


def checked(
    given: Mapping[str, Any], *, owner: User, current: ReportPlan | None = None
) -> dict[str, Any]:
    """The values with the query as it is kept; Invalid names every wrong one. Those left out are as
    in `current`, or of a new plan."""
    ensure_type(REPORT_TYPE)
    mistakes, query = Mistakes(), given.get("query", current.query if current else "")
    fields = {name: value for name, value in given.items() if name in _OF_SCHEDULE}
    with mistakes:
        validate({**fields, "job_type": REPORT_TYPE}, current=current, bounds=PLATFORM)
    with mistakes:
        query = kept_query(query, owner)
    mistakes.raise_all()
    return {**given, "query": query}


def why_not(plan: ReportPlan) -> Message | None:
    """Why the plan cannot be sent now; None if it can."""
    refused = why_not_by(plan.owner)
    return refused if refused or enabled_channels(plan) else NO_CHANNEL


def why_not_by(owner: Any) -> Message | None:
    """Why reports of this owner are not sent; None if they are."""
    if owner is None:
        return DELETED
    if not owner.is_active or not owner.is_staff:
        return DISABLED
    return None if may_report(owner) else FORBIDDEN


def find_plan(**of: int) -> ReportPlan:
    """The plan that meets the condition; NotFound when it was deleted."""
    plan: Any = ReportPlan.objects.not_deleted().filter(**of).first()
    if plan is None:
        raise NotFound(GONE)
    return plan  # type: ignore[no-any-return]


def enabled_channels(plan: ReportPlan) -> list[Channel]:
    return list(plan.channels.filter(enabled=True).order_by("pk"))


@transactional
def create_plan(
    *, channels: Iterable[Channel] = (), owner: Any, actor: str, **values: Any
) -> ReportPlan:
    """A new plan; Invalid names every wrong value."""
    made: Any = schedules.create_schedule(
        **checked(values, owner=owner),
        job_type=REPORT_TYPE,
        start_at=_start_of(values["rule"]),
        owner=owner,
        links={"channels": channels},
        actor=actor,
        bounds=PLATFORM,
        model=ReportPlan,
    )
    return made  # type: ignore[no-any-return]


@transactional
def update_plan(
    *, plan: ReportPlan, changes: Mapping[str, Any], version: int, owner: Any, actor: str
) -> ReportPlan:
    """Change the named values, `channels` among them, and the owner, and nothing else; nothing of
    the past is sent. Conflict when `version` is not the current one."""
    values = {**checked(changes, owner=owner, current=plan), "owner": owner}
    if not {"rule", "time_zone"}.isdisjoint(changes):
        values["start_at"] = _start_of(changes.get("rule", plan.rule))
    changed: Any = schedules.update_schedule(
        schedule=plan, changes=values, version=version, actor=actor, bounds=PLATFORM
    )
    return changed  # type: ignore[no-any-return]


def next_times(plan: ReportPlan, fields: Mapping[str, Any], limit: int) -> list[datetime]:
    """The next times of the plan, new or not, with these valid fields, its rule and time zone."""
    is_same = all(getattr(plan, name) == value for name, value in fields.items())
    start_at = plan.start_at if is_same else _start_of(fields["rule"])
    return schedules.next_runs({**fields, "start_at": start_at}, limit, is_new=False)


def _start_of(rule: Any) -> datetime:
    """The start of a plan that gets this rule now: one of minutes is due in so many first."""
    now, read = clock.now().replace(microsecond=0), parse_rule(rule)
    return now + timedelta(minutes=read.minutes) if isinstance(read, EveryMinutes) else now
