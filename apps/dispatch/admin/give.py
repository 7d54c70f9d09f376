"""Give to…: who could get an open dispatch instead of who has it, and who could not and why."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.actions import MAX_REASON, actor_of
from apps.common.admin.display import label, short_time, shown_text, translate
from apps.common.admin.who import who
from apps.common.errors import PlatformError
from apps.common.texts import begin_of
from apps.dispatch.admin.explain import PASSING, WORDS
from apps.dispatch.admin.people import with_titles
from apps.dispatch.models import TASK_MODELS, Dispatch, Executor, Membership
from apps.dispatch.rules import policy
from apps.dispatch.services.handing import Taker, hand_over, takers

GIVE_URL = "dispatch_dispatch_give"
MAX_PEOPLE = 50
# What these words say needs no sentence with the number of a dispatch.
SHORT = {
    policy.IN_FLIGHT: _("holds a task"),
    policy.COOLING_DOWN: WORDS[policy.COOLING_DOWN],
    policy.ALREADY_TAKEN: WORDS[policy.ALREADY_TAKEN],
}


class Line(NamedTuple):
    title: str
    name: str
    who: SafeString
    word: SafeString
    detail: str
    until: SafeString | None
    can_take: bool


def give_view(request: HttpRequest, *, model_admin: Any, pk: int) -> HttpResponse:
    """The people to choose from (GET), or the hand-over to one of them (POST)."""
    row: Dispatch = model_admin.existing(request, pk, may="operate")
    people = Executor.objects.visible_to(request.user).users()
    if request.method == "POST":
        return _give(request, model_admin, row, people)
    try:
        lines, more, lease = _lines(request, row, people)
    except PlatformError as error:
        return _back(request, model_admin, row, error)
    page: HttpResponse = model_admin.page(
        request,
        "admin/give.html",
        title=_("Give to…"),
        row=row,
        row_title=shown_text(row.title, limit=80),
        row_url=model_admin.change_url(row.pk),
        holder=shown_text(row.executor.title or row.executor.name, limit=80),
        since=short_time(row.dispatched_at),
        deadline=short_time(row.deadline_at),
        is_late=row.deadline_at <= clock.now(),
        new_deadline=short_time(clock.now() + lease),
        lines=lines,
        more=more,
        is_possible=any(line.can_take for line in lines),
        max_people=MAX_PEOPLE,
        max_reason=MAX_REASON,
        asked=request.GET.get("q", ""),
    )
    return page


def _lines(
    request: HttpRequest, row: Dispatch, people: QuerySet[Executor]
) -> tuple[list[Line], bool, timedelta]:
    """The members that the task is addressed to, or the people found by the search; whether there
    are more; the lease."""
    model = TASK_MODELS.get(row.source)
    task = None if model is None else model.objects.filter(pk=row.task).first()
    asked = request.GET.get("q", "").strip()[:100]
    if asked:
        found = people.filter(Q(name__icontains=asked) | Q(title__icontains=asked))
    else:
        owner = None if task is None else task.executor_id
        members = Membership.objects.filter(group=owner)
        found = people.filter(Q(pk=owner) | Q(pk__in=members.values("user")))
    some = list(found.exclude(pk=row.executor_id).order_by("name")[: MAX_PEOPLE + 1])
    lines = [_line(each) for each in takers(row, some[:MAX_PEOPLE])]
    seconds = 0 if task is None else task.lease_seconds
    return lines, len(some) > MAX_PEOPLE, timedelta(seconds=seconds)


def _line(of: Taker) -> Line:
    code, until = of.reason.code, of.reason.until
    colour = "success" if of.can_take else "warning" if code in PASSING else ""
    return Line(
        title=shown_text(of.executor.title or of.executor.name, limit=80),
        name=of.executor.name,
        who=who(of.executor.name, of.executor.title),
        word=label(str((WORDS | SHORT)[policy.OK if of.can_take else code]), colour),
        detail="" if of.can_take or code in SHORT else with_titles(of.reason.detail, of.executor),
        until=None if until is None else format_html(gettext("until {}"), short_time(until)),
        can_take=of.can_take,
    )


def _give(
    request: HttpRequest, model_admin: Any, row: Dispatch, people: QuerySet[Executor]
) -> HttpResponse:
    name = request.POST.get("to", "")
    to = people.filter(name=name).first()
    if to is None or to.name != name:
        model_admin.message_user(request, gettext("Choose who is to get it."), messages.WARNING)
        return HttpResponseRedirect(model_admin.url("give", row.pk))
    reason = begin_of(request.POST.get("reason", "").strip(), MAX_REASON)
    try:
        given = hand_over(dispatch=row, to=to, actor=actor_of(request), reason=reason)
    except PlatformError as error:
        return _back(request, model_admin, row, error)
    text = gettext("%(title)s was given to %(person)s.") % {
        "title": shown_text(row.title, limit=80),
        "person": shown_text(to.title or to.name, limit=80),
    }
    model_admin.message_user(request, text, messages.SUCCESS)
    return HttpResponseRedirect(model_admin.change_url(given.pk))


def _back(
    request: HttpRequest, model_admin: Any, row: Dispatch, error: PlatformError
) -> HttpResponse:
    """The way back to the dispatch, with the error."""
    model_admin.message_user(request, translate(error.detail), messages.ERROR)
    return HttpResponseRedirect(model_admin.change_url(row.pk))
