"""A job type in words: its presets, tries and settings, and what an edit would change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from django.utils.functional import Promise
from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.display import labelled, listed, shown_text
from apps.common.admin.durations import written
from apps.jobs.admin.job_type_form import FAILS, MORE, PRESET, PROTECTION, RUNS, WHAT_IF
from apps.jobs.handlers import registry
from apps.jobs.models import JobType
from apps.jobs.rules.backoff import backoff_seconds
from apps.jobs.rules.type_presets import CALL, LONG, NIGHT, PRESETS, SHORT, preset_of
from apps.jobs.services.counts import MAX_COUNTED
from apps.jobs.services.type_what_if import what_if

TITLES: dict[str, str | Promise] = {
    SHORT: _("Short"),
    CALL: _("HTTP call"),
    LONG: _("Long"),
    NIGHT: _("Night batch"),
}
# Tries that are drawn one by one.
MAX_TRIES = 6
# Hosts that a sentence names.
MAX_HOSTS = 5


def context(form: Any, row: JobType | None) -> dict[str, Any]:
    """The variables of the form's template, beside the form."""
    if not form.may_change:
        return {}
    typed = form.typed
    parts = (
        (_("Runs"), _("Where and how long"), RUNS),
        (_("When it fails"), _("How often again, and when"), FAILS),
        (_("Protection"), _("So that one fault harms one type"), PROTECTION),
    )
    drawn = {
        "cards": cards(typed),
        "parts": [(title, note, form.parts(names)) for title, note, names in parts],
        "tries_of": parts[1][0],
        "tries": tries(typed),
        "more_tries": max(0, typed.max_attempts - MAX_TRIES),
        "more_fields": form.parts(MORE),
        "more_line": differing(typed, form, MORE),
        "sentence": sentence(typed),
        "preset": PRESET,
    }
    if form.draft == WHAT_IF and row is not None:
        drawn["changes"] = what_would_change(row, typed)
    return drawn


class Card(NamedTuple):
    """A preset; the type has it if `is_chosen`."""

    name: str
    title: str | Promise
    note: str
    is_chosen: bool


def cards(job_type: JobType) -> list[Card]:
    """The presets, and last the values of the type's own."""
    chosen = preset_of(job_type)
    found = [
        Card(name, TITLES[name], _note(JobType(**preset)), name == chosen)
        for name, preset in PRESETS.items()
    ]
    return [*found, Card("", _("Own values"), gettext("as filled in below"), not chosen)]


def _note(preset: JobType) -> str:
    """`30 s · 3 tries, breaker`."""
    tries = ngettext("%d try", "%d tries", preset.max_attempts) % preset.max_attempts
    parts = [tries]
    if preset.max_attempts > 1:
        parts.append(gettext("first wait %s") % written(preset.retry_delay_seconds))
    if preset.breaker_enabled:
        parts.append(gettext("breaker"))
    return f"{written(preset.max_processing_seconds)} · {listed(parts)}"


class Wait(NamedTuple):
    """A try with this number comes after a wait of so long; `between` are its bounds by jitter."""

    number: int
    wait: str
    between: str


def tries(job_type: JobType) -> list[Wait]:
    """The tries after the first one, at most MAX_TRIES."""
    policy, last = job_type.snapshot.backoff, min(job_type.max_attempts, MAX_TRIES)
    found = []
    for number in range(2, last + 1):
        low, middle, high = (
            _rounded(backoff_seconds(policy, number - 1, chance=chance)) for chance in (0, 0.5, 1)
        )
        between = "" if low == high else f"{written(low)} … {written(high)}"
        found.append(Wait(number, written(middle), between))
    return found


def _rounded(seconds: float) -> float:
    return round(seconds, 1) if seconds < 10 else round(seconds)


def waits_in_all(job_type: JobType) -> float:
    """The seconds of all waits together."""
    policy, count = job_type.snapshot.backoff, job_type.max_attempts - 1
    # From some wait on all are alike, or nearly none.
    first = [backoff_seconds(policy, n) for n in range(1, min(count, 1_000) + 1)]
    return _rounded(sum(first) + (first[-1] if first else 0.0) * (count - len(first)))


def sentence(job_type: JobType) -> str:
    """The settings in a few sentences."""
    return " ".join(_sentences(job_type))


def _by_key(job_type: JobType) -> Iterator[str]:
    by = {"by": job_type.limit_by}
    if job_type.limit_running is not None:
        words = gettext("Of each %(by)s at most %(max)s are ready or running at once.")
        yield words % {**by, "max": f"{job_type.limit_running:,}"}
    if job_type.limit_per_minute is not None:
        words = gettext("Of each %(by)s at most %(max)s become ready in a minute.")
        yield words % {**by, "max": f"{job_type.limit_per_minute:,}"}


def _sentences(job_type: JobType) -> Iterator[str]:
    finish = written(job_type.max_processing_seconds)
    if job_type.max_attempts == 1:
        yield gettext("A job has one try of %s.") % finish
    else:
        yield gettext(
            "A job has %(tries)d tries of %(finish)s each, and %(waits)s of waits between them."
        ) % {
            "tries": job_type.max_attempts,
            "finish": finish,
            "waits": written(waits_in_all(job_type)),
        }
    if job_type.max_running is not None:
        yield gettext("At most %s run at once.") % f"{job_type.max_running:,}"
    if job_type.rate_per_minute is not None:
        yield gettext("At most %s start each minute.") % f"{job_type.rate_per_minute:,}"
    if job_type.limit_by:
        yield from _by_key(job_type)
    if job_type.breaker_enabled:
        yield gettext(
            "When %(share)s of at least %(calls)s tries within %(window)s fail, none starts for "
            "%(open)s; then one job tests the cause."
        ) % {
            "share": f"{job_type.breaker_failure_rate:.0%}".replace("%", " %"),
            "calls": f"{job_type.breaker_min_calls:,}",
            "window": written(job_type.breaker_window_seconds),
            "open": written(job_type.breaker_open_seconds),
        }
    if job_type.expires_after_seconds is not None:
        yield gettext("After %s a job expires.") % written(job_type.expires_after_seconds)
    if job_type.snapshot.unique == JobType.Unique.ALWAYS:
        yield gettext("One job per key is open at a time.")
    if job_type.allowed_hosts:
        hosts = [shown_text(str(each), limit=80) for each in job_type.allowed_hosts[:MAX_HOSTS]]
        more = ["…"] if len(job_type.allowed_hosts) > MAX_HOSTS else []
        yield gettext("Only workers on %s run them.") % listed([*hosts, *more])
    if not job_type.handler:
        yield gettext("Only workers over HTTP run them.")
    elif job_type.handler not in registry.names():
        yield gettext("No handler %s is registered here.") % repr(shown_text(job_type.handler))


def differing(job_type: JobType, form: Any, names: Sequence[str]) -> str:
    """`Weight 5 · 17 others as usual`: those of the fields whose values are not those of a new
    type."""
    usual = JobType()
    said = []
    for name in names:
        value = getattr(job_type, name)
        if value != getattr(usual, name) and value not in (None, "", [], {}):
            label = capfirst(str(form.fields[name].label))
            said.append(labelled(label, _short(name, value)))
    rest = len(names) - len(said)
    said.append(ngettext("%d other as usual", "%d others as usual", rest) % rest)
    return " · ".join(said)


def _short(name: str, value: Any) -> str:
    if name.endswith("_seconds"):
        return written(value)
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    if isinstance(value, dict):
        return "{…}"
    if isinstance(value, list):
        return shown_text(listed(value), limit=60)
    field: Any = JobType._meta.get_field(name)
    return shown_text(str(dict(field.flatchoices).get(value, value)), limit=60)


def what_would_change(before: JobType, after: JobType) -> list[str]:
    """Sentences about the jobs that wait and run."""
    found = what_if(before.snapshot, after.snapshot, clock.now())
    if found.is_nothing:
        return [gettext("No job that waits or runs would end, wait or be late by that.")]
    said = []
    if found.expired:
        said.append(
            ngettext(
                "%s waiting job would have expired, and fail.",
                "%s waiting jobs would have expired, and fail.",
                found.expired,
            )
            % _number(found.expired)
        )
    if found.late:
        said.append(
            ngettext(
                "%s more waiting job would start too late.",
                "%s more waiting jobs would start too late.",
                found.late,
            )
            % _number(found.late)
        )
    if found.above:
        said.append(
            ngettext(
                "%s job runs above the limit; it goes on, and no other starts before.",
                "%s jobs run above the limit; they go on, and no other starts before.",
                found.above,
            )
            % _number(found.above)
        )
    if found.longer:
        said.append(
            ngettext(
                "%s running job has taken longer than a try may then; it keeps its deadline.",
                "%s running jobs have taken longer than a try may then; they keep their deadlines.",
                found.longer,
            )
            % _number(found.longer)
        )
    return said


def _number(count: int) -> str:
    return f"{count:,}" if count < MAX_COUNTED else f"{MAX_COUNTED:,}+"
