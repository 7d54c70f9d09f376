"""Bulk runs in the admin: how far each is, what became of its rows, Stop and Continue."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext_lazy, pgettext
from django.utils.translation import gettext_lazy as _

from apps.bulk.admin import words
from apps.bulk.admin.chips import chips
from apps.bulk.admin.forms import shown_params
from apps.bulk.admin.plan_page import MAX_LABEL
from apps.bulk.admin.undo_page import UNDO_URL
from apps.bulk.models import BulkRow, BulkRun
from apps.bulk.services import runs, undo
from apps.bulk.services.runs import is_old, is_stalled
from apps.bulk.services.selection import CHANGED_BY, stored
from apps.bulk.services.targets import TARGETS, Target, params_of
from apps.common import clock
from apps.common.admin.actions import ReasonAction
from apps.common.admin.buttons import Button
from apps.common.admin.csv_text import BYTE_ORDER_MARK, as_file, plain_cell
from apps.common.admin.display import (
    column,
    error_column,
    labelled,
    listed,
    progress_bar,
    shown_actor,
    shown_text,
    state_label,
    time_column,
    translate,
)
from apps.common.admin.filters import list_filters
from apps.common.admin.html import page_link, page_url
from apps.common.admin.list_head import NextStep
from apps.common.admin.live import LiveAdmin
from apps.common.admin.machine_rows import MachineRowAdmin
from apps.common.admin.pages import Panel
from apps.common.filtersets import Choice, RowFilters
from apps.common.masking import redact
from apps.common.messages import Message
from apps.common.readers import read_number
from apps.jobs.models import Job
from apps.jobs.rules import verbs
from apps.journal.admin.words import reason_of

_COLOURS = {
    BulkRun.State.COLLECTING: "info",
    BulkRun.State.ACTING: "info",
    BulkRun.State.DONE: "success",
    BulkRun.State.STOPPED: "warning",
    BulkRun.State.FAILED: "danger",
}
LISTED = 100
MAX_LINES = 100_000
_AT_ONCE = 2_000
_SECONDS = 1


def _may_go_on(run: BulkRun) -> bool:
    is_halted = run.state == BulkRun.State.STOPPED or is_stalled(run)
    return is_halted and not is_old(run)


# --- progress -------------------------------------------------------------------------------------
def _live(run: BulkRun) -> dict[str, Any]:
    # This may read the run again.
    has_stalled = is_stalled(run)
    left, speed = run.collected - run.handled, _speed(run)
    return {
        "run": run,
        "state": capfirst(gettext("stopped") if has_stalled else run.get_state_display()),
        "why": reason_of(run.why),
        "bar": progress_bar(run.handled / run.collected if run.collected else 0),
        "figures": [
            (capfirst(gettext("rows")), f"{run.collected:,}"),
            (capfirst(gettext("done")), f"{run.done:,}"),
            (capfirst(gettext("skipped")), f"{run.skipped:,}"),
            (capfirst(gettext("failed")), f"{run.failed:,}"),
        ],
        "speed": f"{speed:.0f}" if speed else "",
        "left": words.lasting(round(left / (speed or run.rate)))
        if run.is_under_way and left
        else "",
    }


def _speed(run: BulkRun) -> float:
    """Rows a second of the present attempt, or of the last one; 0 before it has changed any."""
    if run.paced_at is None or run.state == BulkRun.State.STOPPED:
        return 0.0
    seconds = ((run.ended_at or clock.now()) - run.paced_at) / timedelta(seconds=1)
    return (run.handled - run.paced_from) / max(1.0, seconds)


# --- rows -----------------------------------------------------------------------------------------
def _rows(request: HttpRequest, run: BulkRun) -> SafeString:
    """The rows of one outcome, some at a time; the first is what went wrong, if anything did."""
    usual = next((name for name in ("failed", "skipped", "done") if getattr(run, name)), "")
    asked = request.GET.get("outcome", usual)
    outcome = asked if asked in BulkRow.Outcome.values else usual
    after = read_number(request.GET.get("after", "")) or 0
    rows = list(run.rows.filter(outcome=outcome, pk__gt=after).order_by("pk")[: LISTED + 1])
    target, listed = TARGETS.get(run.kind), rows[:LISTED]
    labels = {} if target is None else target.labels([row.target for row in listed])
    left = run.collected - run.handled
    counted = (
        ("done", run.done),
        ("skipped", run.skipped),
        ("failed", run.failed),
        ("", left),
    )
    context = {
        "tabs": [
            (capfirst(_outcome(run, name)), f"{count:,}", name, name == outcome)
            for name, count in counted
            if count
        ],
        "rows": [
            (
                "" if target is None else page_url(target.model, row.target),
                row.target,
                shown_text(labels.get(row.target, ""), limit=MAX_LABEL),
                redact(translate(Message(row.why))),
            )
            for row in listed
        ],
        "outcome": outcome,
        "next": rows[LISTED - 1].pk if len(rows) > LISTED else None,
        "csv_url": reverse("admin:bulk_bulkrun_csv", args=[run.pk]),
    }
    return render_to_string("admin/includes/bulk_rows.html", context)


def _outcome(run: BulkRun, name: str) -> str:
    if not name and run.ended_at is not None:
        return gettext("not changed")
    return str(BulkRow.Outcome(name).label)


def csv_view(request: HttpRequest, *, model_admin: Any, pk: int) -> HttpResponseBase:
    """All rows of the run with their outcomes."""
    run: BulkRun = model_admin.existing(request, pk, may="view")
    name = f"bulk-run-{run.pk}.csv"
    answer = StreamingHttpResponse(_lines(run), content_type="text/csv; charset=utf-8")
    rows = run.rows.order_by()[:MAX_LINES].count()
    return as_file(answer, name=name, file={"run": run.pk, "rows": rows})


def _lines(run: BulkRun) -> Iterator[str]:
    yield BYTE_ORDER_MARK + _line(["number", "outcome", "why"])
    after, count = 0, 0
    while count < MAX_LINES:
        part = run.rows.filter(pk__gt=after).order_by("pk")[:_AT_ONCE]
        rows = list(part.values_list("pk", "target", "outcome", "why"))
        yield "".join(_line([target, outcome, redact(why)]) for _pk, target, outcome, why in rows)
        if len(rows) < _AT_ONCE:
            return
        after, count = rows[-1][0], count + len(rows)


def _line(cells: Sequence[object]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow([plain_cell(cell) for cell in cells])
    return text.getvalue()


class RunFilters(RowFilters):
    state = Choice(BulkRun.State.choices, label=_("state"))


def _chips(request: HttpRequest, target: Target, run: BulkRun) -> Iterable[str]:
    # The conditions on payloads contain parts of payloads.
    hidden = () if request.user.has_perm(target.payload) else ("where",)
    return chips(stored(target, run.filter).masked(), request.user, hidden=hidden)


class BulkRunAdmin(LiveAdmin, MachineRowAdmin):
    when_empty = _("A list of jobs leads here: filter it, then “Act on all”.")
    next_steps = (NextStep(_("See the jobs"), "admin:jobs_job_changelist", "jobs.view_job"),)
    list_display = ("number", "shown_what", "shown_state", "shown_progress", "by", "started")
    list_mobile = (("shown_state", "shown_what"), ("number", "shown_progress", "started"))
    list_tabs = "state"
    list_filter = list_filters(RunFilters)
    exact_search = (("pk", read_number),)
    search_help_text = _("Number of a run")
    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("shown_what", "shown_filter"),
                    ("shown_reason", "by"),
                    ("rate", "at_most"),
                    ("started", "ended"),
                    ("shown_job",),
                )
            },
        ),
    )
    custom_urls = (("<int:pk>/csv/", "bulk_bulkrun_csv", csv_view),)
    actions = ("stop_run", "continue_run")
    shown_state = state_label("state", _COLOURS, _("state"))
    shown_reason = error_column("reason", _("reason"))
    started = time_column("created_at", _("started"))
    ended = time_column("ended_at", _("ended"))

    def has_operate_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """May this person change what some runs are about?"""
        needed = {each.permission for target in TARGETS.values() for each in target.verbs.values()}
        return any(map(request.user.has_perm, needed))

    def list_actions(self, request: HttpRequest, found: dict[str, Any]) -> dict[str, Any]:
        # One by one, on the page of a run.
        return {}

    def prepare_row(self, request: HttpRequest, row: Any) -> None:
        target = TARGETS.get(row.kind)
        row.chips = [row.kind] if target is None else [*_chips(request, target, row)]
        row.page_title = self.row_label(row)

    def row_label(self, row: BulkRun) -> str:
        return f"{words.named(row.kind, row.verb)} · {row.pk}"

    # --- columns ----------------------------------------------------------------------------------
    @column(_("number"))
    def number(self, run: BulkRun) -> int:
        return run.pk

    @column(_("what"))
    def shown_what(self, run: BulkRun) -> str:
        changes = listed(shown_params(run.kind, run.verb, params_of(run.params)))
        what = words.named(run.kind, run.verb)
        return labelled(what, changes) if changes else what

    @column(_("by"))
    def by(self, run: BulkRun) -> str:
        return shown_actor(run.actor)

    @column(_("filter"))
    def shown_filter(self, run: Any) -> str:
        return " · ".join(run.chips) or gettext("every row")

    @column(_("progress"))
    def shown_progress(self, run: BulkRun) -> SafeString:
        return progress_bar(run.handled / run.collected if run.collected else 0)

    @column(_("job"))
    def shown_job(self, run: BulkRun) -> SafeString | str:
        if not run.job:
            return ""
        return page_link(Job, run.job)

    # --- the page ---------------------------------------------------------------------------------
    def live_seconds(self, row: BulkRun) -> float | None:
        return _SECONDS if row.is_under_way and not is_stalled(row) else None

    def top_panels(self, request: HttpRequest, row: BulkRun) -> list[Panel]:
        drawn = render_to_string("admin/includes/bulk_live.html", _live(row))
        return [Panel(_("Progress"), drawn)]

    def panels(self, request: HttpRequest, row: BulkRun) -> list[Panel]:
        return [Panel(pgettext("one by one", "Rows"), _rows(request, row))]

    def buttons(self, request: HttpRequest, row: BulkRun) -> list[Button]:
        found = super().buttons(request, row)
        may = undo.may_undo(row, request.user)
        if may and undo.why_not(row) is None:
            url = f"{reverse(UNDO_URL)}?run={row.pk}"
            found.append(Button(url=url, text=_("Undo…"), icon="undo"))
        is_over = not row.is_under_way and row.done and not is_old(row)
        if may and is_over and row.verb == verbs.CANCEL and verbs.RETRY in TARGETS[row.kind].verbs:
            url = f"{reverse('bulk_new', args=[row.kind, verbs.RETRY])}?{CHANGED_BY}={row.pk}"
            found.append(Button(url=url, text=_("Retry now…"), icon="replay"))
        return found

    # --- actions ----------------------------------------------------------------------------------
    @ReasonAction(
        description=_("Stop"),
        permission="operate",
        question=_("No further rows are changed. Those that are changed stay as they are."),
        done=ngettext_lazy("%d bulk run stopped.", "%d bulk runs stopped."),
        icon="pause",
        is_dangerous=True,
        offered=lambda run: run.is_under_way and not is_stalled(run),
    )
    def stop_run(self, row: BulkRun, *, reason: str, actor: str) -> object:
        return runs.stop(run=row, actor=actor, reason=reason)

    @ReasonAction(
        description=_("Continue"),
        permission="operate",
        question=_("The rows that are left are changed, too."),
        done=ngettext_lazy("%d bulk run continued.", "%d bulk runs continued."),
        icon="play_arrow",
        offered=_may_go_on,
    )
    def continue_run(self, row: BulkRun, *, reason: str, actor: str) -> object:
        return runs.resume(run=row, actor=actor, reason=reason)


admin.site.register(BulkRun, BulkRunAdmin)
