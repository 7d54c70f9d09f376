"""Problems as they are drawn: words, counts, and one button each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext, pgettext

from apps.common.admin.display import listed, short_text, shown_actor, shown_text, translate
from apps.common.admin.html import list_url, page_url
from apps.common.masking import redact
from apps.dispatch.models import Dispatch
from apps.jobs.handlers import registry
from apps.jobs.models import Job
from apps.jobs.rules.transitions import FAILED
from apps.jobs.services.error_states import states_of
from apps.journal.admin.words import reason_of
from apps.reports.admin.overview.sight import Sight
from apps.reports.admin.overview.strip import SPOKEN
from apps.reports.admin.overview.times import worded
from apps.reports.rules.outcomes import JOB
from apps.reports.services.causes import Cause
from apps.reports.services.titles import titles
from apps.reports.watches.problem_rows import SEEN, SNOOZED, SOLVED, ProblemRow

MAX_NAMED = 3
MAX_SAMPLE = 240
MAX_NOTE = 120
_ICON = "block"
# A count from which on its cell is this dark.
_HEAT = (100, 10, 1)


class Pill(NamedTuple):
    """The state of a row in a word; the tone names its colour."""

    text: str
    tone: str


class Drawn(NamedTuple):
    """A row as the template has it; `button` and `newest` are a label with its address."""

    name: str
    severity: str
    spoken: str | Promise
    icon: str
    text: str
    pill: Pill | None
    why: str
    newest: tuple[str, str] | None
    counts: list[tuple[str, int]]
    last: str
    button: tuple[str, str] | None
    others: list[tuple[str, str]]
    may_solve: bool


class Drawing:
    """Draws rows for one person; what they need of the database is read for all of them at once."""

    def __init__(self, sight: Sight, rows: Sequence[ProblemRow]) -> None:
        self._sight = sight
        causes = [row.cause for row in rows if row.cause is not None]
        tasks = [p.type_or_task for each in causes for p in each.parts[:MAX_NAMED]]
        self._titles = titles(tasks)
        self._failed = _failed(causes) if sight.permits("jobs.operate_job") else {}

    def drawn(self, row: ProblemRow) -> Drawn:
        trouble, cause = row.trouble, row.cause
        ways = self._ways(row)
        return Drawn(
            name=row.name,
            severity="known" if trouble is None else trouble.severity,
            spoken=pgettext("problems", "Known") if trouble is None else SPOKEN[trouble.severity],
            icon=_ICON if trouble is None else trouble.icon,
            text=self.title(row),
            pill=_pill(row),
            why=" · ".join(filter(None, self._why(row))),
            newest=None if cause is None else _newest(cause),
            counts=[(f"{count:,}" if count else "–", _heat(count)) for count in row.counts[::-1]],
            last="" if row.last is None else short_text(row.last),
            button=ways[-1] if ways else None,
            others=ways[:-1],
            may_solve=cause is not None and row.state != SOLVED,
        )

    def title(self, row: ProblemRow) -> str:
        if row.cause is not None:
            return shown_text(reason_of(row.cause.newest.sample), limit=MAX_SAMPLE)
        return "" if row.trouble is None else worded(row.trouble.read.text).rstrip(".。")

    def name_of(self, type_or_task: str) -> str:
        return self._titles.get(type_or_task, type_or_task)

    def _why(self, row: ProblemRow) -> Iterable[str]:
        if row.cause is not None:
            named = [self.name_of(part.type_or_task) for part in row.cause.parts]
            yield listed(named[:MAX_NAMED])
            if more := len(named) - MAX_NAMED:
                yield gettext("%d more") % more if more > 0 else ""
        if row.trouble is not None:
            if row.cause is not None:
                yield worded(row.trouble.read.text).rstrip(".。")
            yield self._reason(row)
        yield remark(row)

    def _reason(self, row: ProblemRow) -> str:
        """The reason of the trouble, but for the error, which the row already names."""
        why = worded(row.trouble.read.why) if row.trouble is not None else ""
        if row.cause is None or not why.startswith("“"):
            return why
        return why.partition("”")[2].removeprefix(" · ")

    def _ways(self, row: ProblemRow) -> list[tuple[str, str]]:
        """The links of the row, label and address; the last one mends it or helps most."""
        ways = [] if row.cause is None else self._of_cause(row.cause)
        if row.trouble is not None:
            own = [(translate(label), url) for label, url in row.trouble.ways(self._sight.permits)]
            ways = [*own, *ways] if ways and self._is_retried(row.cause) else [*ways, *own]
        return ways

    def _is_retried(self, cause: Cause | None) -> bool:
        return cause is not None and self._failed.get(cause.key) != 0

    def _of_cause(self, cause: Cause) -> list[tuple[str, str]]:
        jobs = cause.types
        ways = []
        for part in cause.parts[:MAX_NAMED]:
            if part.source != JOB:
                source, _colon, task = part.type_or_task.partition(":")
                url = list_url(Dispatch, source=source, task=task, state=FAILED)
                words = gettext("Look") if len(cause.parts) == 1 else gettext("Look: %s")
                name = self.name_of(part.type_or_task)
                ways.append((words % name if "%" in words else words, url))
        if jobs:
            group = {"error_key": cause.key}
            if len(jobs) == 1:
                group = {"type": jobs[0], **group}
            ways.append((gettext("Jobs with this error"), list_url(Job, **group)))
            count = self._failed.get(cause.key, 0)
            if count != 0:
                url = reverse("bulk_new", args=["jobs", "retry"])
                words = gettext("Retry…") if count is None else gettext("Retry %s") % f"{count:,}"
                ways.append((words, f"{url}?{urlencode({**group, 'status': FAILED})}"))
        return ways


def remark(row: ProblemRow) -> str:
    """The remark on a row: who has seen, solved or snoozed it, when, and their note; or ""."""
    remark = row.remark
    if row.state == SNOOZED:
        text = gettext("snoozed until %s") % short_text(row.until) if row.until else ""
        return f"{text} · {shown_actor(remark.by)}" if remark is not None and remark.by else text
    if remark is None or not remark.by:
        return ""
    values = {"person": shown_actor(remark.by), "at": short_text(remark.changed_at)}
    if remark.state == SEEN:
        text = gettext("%(at)s seen by %(person)s") % values
    else:
        text = gettext("%(at)s solved by %(person)s") % values
    note = shown_text(str(redact(remark.note)), limit=MAX_NOTE)
    return text + pgettext("a quotation after a sentence", ": “%s”") % note if note else text


def _pill(row: ProblemRow) -> Pill | None:
    if row.is_back:
        return Pill(gettext("back again"), "back")
    if row.state in (SNOOZED, SOLVED):
        return None
    if row.remark is not None and row.remark.state == SOLVED:
        return Pill(pgettext("problem", "solved"), "calm")
    if row.state == SEEN:
        return Pill(pgettext("problem", "seen"), "calm")
    return Pill(pgettext("problem", "new"), "new")


def _newest(cause: Cause) -> tuple[str, str]:
    """The newest job or dispatch with the error."""
    part = cause.newest
    if part.source == JOB:
        return gettext("newest job"), page_url(Job, part.subject_id)
    return gettext("newest dispatch"), page_url(Dispatch, part.subject_id)


def _failed(causes: Iterable[Cause]) -> Mapping[str, int | None]:
    """The number of failed jobs with each cause, by its key; None for too many to count.
    Nobody acts on all jobs of the platform's own types."""
    own = registry.system_types()
    wanted = [(type_, each.key) for each in causes for type_ in each.types if type_ not in own]
    found: dict[str, int | None] = {}
    for (_type, key), states in states_of(wanted).items():
        known = found.get(key, 0)
        count = None if states is None else states.get(FAILED, 0)
        found[key] = None if known is None or count is None else known + count
    return found


def _heat(count: int) -> int:
    return next((3 - place for place, least in enumerate(_HEAT) if count >= least), 0)


def counted(row: ProblemRow) -> str:
    """`64 failed for good within a week`."""
    count = row.counts[0] if row.counts else 0
    text = ngettext("%s failed for good within a week", "%s failed for good within a week", count)
    return text % f"{count:,}"
