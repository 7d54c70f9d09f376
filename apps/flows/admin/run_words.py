"""How runs of flows and their steps stand, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext, pgettext

from apps.common import clock
from apps.common.admin.display import (
    choice_label,
    duration_of,
    filled,
    label,
    listed,
    short_time,
    shown_text,
)
from apps.flows.models import FlowRun, FlowStep
from apps.flows.rules import joins, shapes
from apps.flows.services import lately, progress
from apps.flows.services.progress import Parts, StepProgress
from apps.journal.admin.words import reason_of

Status, State = FlowRun.Status, FlowStep.State
RUN_COLOURS = {
    Status.RUNNING: "info",
    Status.CANCELLING: "warning",
    Status.SUCCEEDED: "success",
    Status.FAILED: "danger",
}
STEP_COLOURS = {State.SUCCEEDED: "success", State.FAILED: "danger"}
MAX_NAME, MAX_WHY = 80, 160
# Steps that a sentence names.
MAX_NAMED = 3


def run_state(run: FlowRun) -> SafeString:
    """The state of a run in its colour; of a paused one that it is."""
    if run.is_paused and run.status == Status.RUNNING:
        return label(capfirst(gettext("paused")), "warning")
    return choice_label(Status, run.status, RUN_COLOURS)


def run_name(run: FlowRun, title: str = "") -> str:
    """`Weekly price round · 2026-11-26`: by its flow and key, else by its number."""
    name = title or run.flow or gettext("Definition of its own")
    return f"{shown_text(name, limit=MAX_NAME)} · {run.key or run.pk}"


def length_of(length: timedelta) -> str:
    """How long something took, to the second."""
    return duration_of(length // timedelta(seconds=1) * 1000)


def title_of(each: StepProgress) -> str:
    """The name of a step for people."""
    return shown_text(each.step.title, limit=MAX_NAME)


# --- steps ----------------------------------------------------------------------------------------
def step_state(each: StepProgress, verdict: joins.Verdict | None) -> SafeString:
    """The state of a step in its colour; of one with failures how many there are."""
    row, parts = each.row, each.parts
    if row.state == State.BLOCKED:
        never = verdict is joins.Verdict.NEVER
        return label(gettext("Not reached") if never else gettext("Waiting"))
    if row.state in (State.ACTIVE, State.FAILED) and parts.failed:
        said = ngettext("%d failed", "%d failed", parts.failed) % parts.failed
        return label(said, "danger")
    if row.state == State.ACTIVE:
        return label(pgettext("runs", "Running"), "info")
    return choice_label(State, row.state, STEP_COLOURS)


def done_words(each: StepProgress, numbers: Mapping[str, int]) -> str:
    """`1 failed, 9 of 12 done, 2 open`, or what a step waits for that has not begun."""
    row, parts = each.row, each.parts
    if row.state == State.BLOCKED:
        return _needs_words(each, numbers)
    if row.state == State.SKIPPED and not parts.done:
        return gettext("left out")
    if row.kind == shapes.WAIT:
        return _wait_words(each)
    total = parts.total
    if total is None:
        done = ngettext("%d done", "%d done", parts.good) % parts.good
    else:
        done = gettext("%(done)s of %(total)s done") % {
            "done": f"{parts.good:,}",
            "total": f"{total:,}",
        }
    held = gettext("%s open") % f"{parts.held:,}" if parts.held else ""
    failed = ngettext("%d failed", "%d failed", parts.failed) % parts.failed if parts.failed else ""
    return listed(filter(None, [failed, done, held]))


def _needs_words(each: StepProgress, numbers: Mapping[str, int]) -> str:
    needs = sorted(numbers[name] for name in each.step.needs)
    if not needs:
        return gettext("waits")
    steps = ngettext("waits for step %s", "waits for steps %s", len(needs))
    return steps % listed(needs)


def _wait_words(each: StepProgress) -> str:
    if each.row.state != State.ACTIVE:
        return gettext("over")
    if (until := each.step.over_at(each.row.started_at)) is not None:
        return gettext("waits until a time") if until > clock.now() else gettext("over")
    return gettext("waits for somebody to finish it")


def why(row: FlowStep) -> str:
    """Why the step failed or was left out; "" for none."""
    return shown_text(reason_of(row.memo), limit=MAX_WHY)


# --- the sentence ---------------------------------------------------------------------------------
def sentence(run: FlowRun, found: Mapping[str, StepProgress]) -> SafeString:
    """What the run waits for, or how it ended, and how much of it is done."""
    totals = progress.totals(found)
    values: dict[str, Any] = {
        "done": f"{totals.done:,}",
        "total": f"{totals.total:,}",
        "time": format_html("<strong>{}</strong>", length_of(progress.lasted(run))),
        "what": SafeString(listed(_waits(found))),
        "why": shown_text(reason_of(run.reason), limit=MAX_WHY),
    }
    return format_html(_template(run, values, is_exact=totals.is_exact), **values)


def _template(run: FlowRun, values: Mapping[str, Any], *, is_exact: bool) -> str:
    if run.status == Status.SUCCEEDED:
        if values["done"] != values["total"]:
            return gettext("Done after {time}; {done} of {total} parts succeeded.")
        return gettext("All is done after {time}: {done} of {total} parts.")
    if run.status == Status.CANCELLED:
        return gettext("Stopped after {time}; {done} of {total} parts are done. {why}")
    if run.status == Status.CANCELLING:
        if not values["what"]:
            return gettext("It is being stopped. {why}")
        return gettext("It is being stopped and waits for {what}. {why}")
    if run.status == Status.FAILED:
        return gettext("{what}; {done} of {total} parts are done after {time}.")
    if not values["what"]:
        if run.is_paused:
            return gettext("Paused: no step begins; {done} of {total} parts are done after {time}.")
        return gettext("Goes on at once; {done} of {total} parts are done after {time}.")
    if is_exact:
        return gettext("Waits for {what}; {done} of {total} parts are done after {time}.")
    return gettext("Waits for {what}; {done} of about {total} parts are done after {time}.")


def _waits(found: Mapping[str, StepProgress]) -> Iterator[SafeString]:
    concerned = [each for each in found.values() if each.holds_up]
    for each in concerned[:MAX_NAMED]:
        yield from _waits_of(each)
    if more := len(concerned) - MAX_NAMED if len(concerned) > MAX_NAMED else 0:
        yield format_html("{}", ngettext("%d more step", "%d more steps", more) % more)


def _waits_of(each: StepProgress) -> Iterator[SafeString]:
    row, parts = each.row, each.parts
    if parts.failed or row.state == State.FAILED:
        yield _failed(each)
    if row.state != State.ACTIVE:
        return
    if row.kind == shapes.WAIT:
        until = each.step.over_at(each.row.started_at)
        if until is None:
            yield format_html(gettext("somebody to finish {step}"), step=_bold(title_of(each)))
        else:
            at = short_time(until)
            yield format_html(gettext("{time} ({step})"), time=at, step=_bold(title_of(each)))
    elif row.kind == shapes.TASK:
        count = max(parts.held, (parts.total or 0) - parts.good)
        words = ngettext("{count} person for {step}", "{count} people for {step}", count)
        yield format_html(words, count=_bold(f"{count:,}"), step=_bold(title_of(each)))
    elif count := open_jobs(parts):
        words = ngettext("{count} job of {step}", "{count} jobs of {step}", count)
        yield format_html(words, count=_bold(f"{count:,}"), step=_bold(title_of(each)))


def _failed(each: StepProgress) -> SafeString:
    count = each.parts.failed
    if not count or each.row.kind == shapes.TASK:
        text = gettext("failed step {step}").format(step=title_of(each))
    else:
        words = ngettext("{count} failed job of {step}", "{count} failed jobs of {step}", count)
        text = words.format(count=f"{count:,}", step=title_of(each))
    return format_html('<strong class="flow-bad"><bdi>{}</bdi></strong>', text)


def _bold(text: object) -> SafeString:
    return format_html("<strong><bdi>{}</bdi></strong>", text)


def open_jobs(parts: Parts) -> int:
    """How many jobs run or wait."""
    return parts.held + parts.waiting


def waits_in_short(run: FlowRun, rows: list[FlowStep], titles: Mapping[str, str]) -> str:
    """What a run in a list waits for: its active steps, or those that failed; by their `titles`,
    as on its page, and by their names where they have none."""
    state = State.FAILED if run.status == Status.FAILED else State.ACTIVE
    if not run.is_open and run.status != Status.FAILED:
        return ""
    names = [
        shown_text(titles.get(row.name) or row.name, limit=MAX_NAME)
        for row in rows
        if row.state == state
    ]
    more = len(names) - MAX_NAMED
    shown = names[:MAX_NAMED]
    return listed([*shown, f"+{more}"] if more > 0 else shown)


# --- the line below -------------------------------------------------------------------------------
def estimate(run: FlowRun) -> SafeString | None:
    """`done about 21:10 (the last six took 1 h 20 min)`; None where nobody knows."""
    usual = lately.usual(run) if run.status == Status.RUNNING else None
    if usual is None:
        return None
    took = ngettext(
        "the last run took %(time)s", "the last %(count)d runs took %(time)s", usual.runs
    ) % {"count": usual.runs, "time": length_of(usual.lasted)}
    end = run.created_at + usual.lasted
    if end <= clock.now():
        return format_html("{}", took)
    return format_html(gettext("done about {time} ({took})"), time=short_time(end), took=took)


def about(run: FlowRun, title: str, *, params: str, by: object) -> SafeString:
    """`Night v3 · shop Bern · started 19:42 by Olga · done about 21:10 (…)`."""
    name = shown_text(title or run.flow or gettext("Definition of its own"), limit=MAX_NAME)
    template = gettext("started {time} by {who}") if by else gettext("started {time}")
    parts = (
        f"{name} v{run.flow_version}" if run.flow else name,
        params,
        filled(template, time=short_time(run.created_at), who=by),
        estimate(run),
    )
    shown = (format_html("<bdi>{}</bdi>", part) for part in parts if part)
    return SafeString(" · ".join(shown))
