"""The head of the page of a dispatch: its state in one sentence, and other dispatches of its
task."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.display import duration_of, shown_text
from apps.common.admin.html import bullets, link, list_url, page_link
from apps.common.admin.pages import Panel
from apps.common.admin.row_page import head_line
from apps.dispatch.models import AnyDispatch, Dispatch, Executor

MAX_OTHERS = 5
MAX_ROUNDS = 5
_MS = timedelta(milliseconds=1)
_SENTENCES: dict[str, Any] = {
    Dispatch.State.OPEN: _("{person} has had {task} for {time}."),
    Dispatch.State.SUCCEEDED: _("{person} did {task} in {time}."),
    Dispatch.State.FAILED: _("{person} failed at {task} after {time}."),
    Dispatch.State.EXPIRED: _("{person} did not report {task} within {time}."),
    Dispatch.State.RELEASED: _("{task} came back from {person} after {time}."),
    Dispatch.State.CANCELLED: _("{task} was taken from {person} for good after {time}."),
}
# Of a state that this release does not know.
_NO_SENTENCE = "{person} · {task} · {time}"


def head(dispatch: AnyDispatch, state: SafeString, task_url: str) -> Panel:
    """The head of the page; `state` is the label of the state."""
    until = dispatch.finished_at or clock.now()
    early = (dispatch.deadline_at - until) // _MS
    template = gettext("{time} before its deadline") if early >= 0 else _late()
    sentence = format_html(
        str(_SENTENCES.get(dispatch.state, _NO_SENTENCE)),
        person=_person(dispatch.executor),
        task=link(task_url, shown_text(dispatch.title, limit=120)),
        time=format_html(
            "<strong>{}</strong>", duration_of((until - dispatch.dispatched_at) // _MS)
        ),
    )
    deadline = template.format(time=duration_of(abs(early)))
    return Panel("", head_line(state, [sentence], deadline))


def _late() -> str:
    return gettext("{time} after its deadline")


def others(dispatch: AnyDispatch, visible: QuerySet[AnyDispatch]) -> Panel | None:
    """The newest other dispatches of the task that the person sees, None without any."""
    of_task = visible.filter(source=dispatch.source, task=dispatch.task).exclude(pk=dispatch.pk)
    newest = of_task.order_by("-pk").select_related("executor")
    rows = list(newest.defer("params", "result", "message")[:MAX_OTHERS])
    if not rows:
        return None
    lines = [
        format_html(
            "{} · {}",
            page_link(type(dispatch), row.pk, _name(row.executor)),
            row.get_state_display(),
        )
        for row in rows
    ]
    whole = list_url(type(dispatch), source=dispatch.source, task=dispatch.task)
    body = format_html("{}<p>{}</p>", bullets(lines), link(whole, gettext("All of this task")))
    return Panel(_("Others on this task"), body)


def rounds_before(dispatch: AnyDispatch) -> list[int]:
    """The numbers of the latest rounds of the person at the occurrence before this one, the oldest
    first; those in the other table are left out."""
    if not dispatch.round:
        return []
    rows: QuerySet[AnyDispatch] = type(dispatch)._default_manager.filter(
        executor=dispatch.executor_id,
        source=dispatch.source,
        task=dispatch.task,
        occurrence=dispatch.occurrence,
        round__lt=dispatch.round,
        round__gte=dispatch.round - MAX_ROUNDS,
    )
    return [*rows.order_by("round").values_list("pk", flat=True)]


def _person(executor: Executor) -> SafeString:
    uid = format_html(' <span class="faint">{}</span>', executor.name) if executor.title else ""
    return format_html("<bdi>{}</bdi>{}", page_link(Executor, executor.pk, _name(executor)), uid)


def _name(executor: Executor) -> str:
    return shown_text(executor.title or executor.name, limit=80)
