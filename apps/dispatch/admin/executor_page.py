"""The page of an executor: open dispatch, latest dispatches, preview, window and queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.actions import actor_of
from apps.common.admin.display import moment_time, short_time, state_label
from apps.common.admin.html import bullets, joined, link, list_url, page_link, page_url
from apps.common.admin.pages import OtherForm, Panel
from apps.dispatch.admin.dispatch_states import STATE_COLOURS
from apps.dispatch.admin.explain import why_not_of_user
from apps.dispatch.admin.give import GIVE_URL
from apps.dispatch.admin.people import person
from apps.dispatch.admin.preview import PERIOD_FORM, UPCOMING, title_of, upcoming_tasks
from apps.dispatch.models import TASK_MODELS, Dispatch, Executor, OnceTask, RotateTask
from apps.dispatch.services.executor_state import ExecutorState, state_of
from apps.dispatch.services.queue import entry_of, rebuilt, window_at

MAX_LISTED = 200
MAX_DISPATCHES = 20
REBUILD_FORM = "rebuild"


def rebuild_view(request: HttpRequest, *, model_admin: Any, pk: int) -> HttpResponse:
    """Rebuild the queue from the tables, in every process; the plan does not change."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    row = model_admin.get_object(request, str(pk))
    if row is None or not model_admin.has_change_permission(request, row) or row.is_group:
        raise PermissionDenied
    entry = rebuilt(row, now=clock.now(), actor=actor_of(request))
    count = entry.queue.size
    text = ngettext(
        "The queue of %(name)s was rebuilt from %(count)d task.",
        "The queue of %(name)s was rebuilt from %(count)d tasks.",
        count,
    )
    model_admin.message_user(request, text % {"name": row.shown, "count": count}, messages.SUCCESS)
    return HttpResponseRedirect(model_admin.change_url(row.pk))


def executor_panels(
    request: HttpRequest, row: Executor, history: Sequence[Panel], *, may_rebuild: bool
) -> list[Panel]:
    """Everything below the form of a user or group; the history comes last."""
    links = Panel(_("Its tasks and dispatches"), _links(row))
    upcoming = Panel(
        _("Upcoming tasks"), upcoming_tasks(request, row), OtherForm(PERIOD_FORM), id=UPCOMING
    )
    if row.is_group:
        return [upcoming, links, *history]
    url = reverse("admin:dispatch_executor_rebuild", args=[row.pk])
    rebuild = OtherForm(REBUILD_FORM, url, method="post")
    return [
        Panel(_("Latest dispatches"), _latest(row, request.user)),
        upcoming,
        links,
        Panel(_("Groups"), _neighbours(row, request.user)),
        Panel(
            _("Window and queue"),
            _window(state_of(row.pk), may_rebuild),
            rebuild,
            is_folded=True,
        ),
        *history,
    ]


def first_panels(request: HttpRequest, row: Executor) -> list[Panel]:
    """What a person has in hand and why not more, above the form; of a group its members."""
    if row.is_group:
        return [Panel(_("Members"), _neighbours(row, request.user))]
    return [
        Panel(_("Open dispatch"), _open_dispatch(row, request.user)),
        why_not_of_user(request, row),
    ]


def _links(row: Executor) -> SafeString:
    links = {Dispatch: _("Dispatches"), OnceTask: _("Once tasks"), RotateTask: _("Repeating tasks")}
    buttons = (
        link(list_url(of, executor=row.name), text, look="plain-button")
        for of, text in links.items()
    )
    return joined(buttons, " ")


def _open_dispatch(row: Executor, user: Any) -> SafeString:
    dispatch = Dispatch.objects.defer("params", "result").open_of(row.pk)
    seen = "–" if row.last_seen_at is None else moment_time(row.last_seen_at)
    seen = format_html('<span class="faint">{} {}</span>', capfirst(gettext("last seen")), seen)
    if dispatch is None:
        return format_html("<p>{} {}</p>", _("Nothing."), seen)
    task = TASK_MODELS[dispatch.source].objects.filter(pk=dispatch.task)
    warning = "" if task.exists() else _("Its task is gone, so it cannot expire; cancel it.")
    give = reverse(f"admin:{GIVE_URL}", args=[dispatch.pk])
    may_give = user.has_perm("dispatch.operate_dispatch")
    return format_html(
        '<div class="choices"><span>{} · <bdi>{}</bdi> · {} {} · {} {} {}</span> {}</div>{}',
        page_link(Dispatch, dispatch.pk),
        title_of(dispatch, user),
        _("Handed out"),
        short_time(dispatch.dispatched_at),
        _("Deadline"),
        short_time(dispatch.deadline_at),
        seen,
        link(give, _("Give to…"), look="plain-button") if may_give else "",
        format_html("<p>{}</p>", warning) if warning else "",
    )


def _latest(row: Executor, user: Any) -> SafeString:
    found = Dispatch.objects.filter(executor=row).order_by("-pk").defer("params", "result")
    state = state_label("state", STATE_COLOURS, "")
    lines = [
        {
            "url": page_url(Dispatch, dispatch.pk),
            "number": dispatch.pk,
            "title": title_of(dispatch, user),
            "state": state(None, dispatch),
            "handed_out": short_time(dispatch.dispatched_at),
            "finished": None if dispatch.finished_at is None else short_time(dispatch.finished_at),
        }
        for dispatch in found[:MAX_DISPATCHES]
    ]
    context = {"lines": lines, "all_url": list_url(Dispatch, executor=row.name)}
    return render_to_string("admin/includes/latest_dispatches.html", context)


def _window(state: ExecutorState, may_rebuild: bool) -> SafeString:
    """The period that the queue of the user covers."""
    now = clock.now()
    queue = entry_of(state, now=now).queue
    context = {
        "lower": short_time(window_at(now).lower),
        "upper": short_time(queue.frame.upper),
        "size": queue.size,
        "may_rebuild": may_rebuild,
        "form": REBUILD_FORM,
    }
    return render_to_string("admin/includes/queue_state.html", context)


def _neighbours(row: Executor, user: Any) -> SafeString:
    """Links to the visible members of a group, or groups of a user."""
    related = {"memberships__group": row} if row.is_group else {"members__user": row}
    rows = Executor.objects.visible_to(user).filter(**related)
    found = list(rows.order_by("name")[: MAX_LISTED + 1])
    if not found:
        return format_html("<p>{}</p>", _("None."))
    listed = bullets(map(person, found[:MAX_LISTED]), look="names")
    if len(found) <= MAX_LISTED:
        return listed
    every = link(list_url(Executor, group=row.name), _("All of them"))
    return format_html("{}<p>{}</p>", listed, every)
