"""The parts of a watch: it reads figures, compares them with a limit, says what is wrong, links to
it and may mend it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.db import DatabaseError
from django.urls import reverse

from apps.common.admin.display import duration_of
from apps.common.db import apart
from apps.common.masking import redact
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.jobs.services.types import names_among
from apps.reports.rules.limits import NO_LIMIT, Limit
from apps.reports.services.fact_sheet import FactSheet
from apps.reports.watches.subjects import WAYS, Way, names_of

# People who make API keys configure the platform, and may run its sweeps.
CONFIGURES = "access.change_apiclient"
# How bad a finding is, the worst first; findings without one are only on the page of governance.
CRITICAL, WARNING, HELD, ADVICE = "critical", "warning", "held", "advice"
SEVERITIES = (CRITICAL, WARNING, HELD, ADVICE)
# Further findings of a watch about subjects of one kind are not listed.
MAX_FOUND = 20


class Reading(NamedTuple):
    """The figure that a watch reads of one subject, named by its `kind` (see subjects) and name.

    `value` is the figure, None when too little is known of the subject to judge it. A rule may be
    limited to a `target`; "" stands for the name. `text` is the sentence where the watch has none,
    and `why` a remark; `look` fills in both if the figure is wrong. `row` is the number of the
    subject's row where it is known.

    The figure has been wrong `since`. `facts` are for a sentence with more than one figure.
    `severity` and `icon`, if given, replace those of the watch; `via` is the page that helps most.
    The reading stands `instead` of those of the watches about these subjects: (key, subject), or
    (key, "") for all of a watch. It is snoozed until `snoozed_until`.

    `alone` says it of a job type without a word of its jobs: for people who see the type, but not
    the jobs of all.
    """

    kind: str
    name: str
    value: float | None = 1.0
    target: str = ""
    text: str = ""
    why: str = ""
    row: int | None = None
    since: datetime | None = None
    facts: Mapping[str, Any] = {}
    severity: str = ""
    icon: str = ""
    via: Way | None = None
    instead: Collection[tuple[str, str]] = ()
    snoozed_until: datetime | None = None
    alone: str = ""

    @property
    def subject(self) -> str:
        """`job_type:mail`."""
        return f"{self.kind}:{self.name}"


class NotKnown(Exception):
    """The watch cannot look here; `why` says what it needs."""

    def __init__(self, why: Message) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """The way in which somebody who CONFIGURES may mend a finding.

    `foresee(name)` says what it would do and changes nothing. `act(name, actor, reason)` does it
    and says what it has done; it raises PlatformError.
    """

    label: Message
    foresee: Callable[[str], Message]
    act: Callable[[str, str, str], Message]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """A watch. `read(sheet)` takes 50 ms at most, however large the tables are, or raises NotKnown.
    Subjects without a reading are well, or exist no more.

    `title` is the sentence that holds while all is well. Each kind of subject has in `says` the
    sentence of a {name} whose {value} has passed the {limit} (`shows` writes these two), in
    `says_now` that of a reading with `facts`, in `advice` what to do, and in `leads` a page that
    helps or mends, besides those of the subject. Findings of a watch with a `severity` stand on the
    home page, too; `snooze(name, time, actor)` is set if a snooze does more than hide them there.
    """

    key: str
    title: Message
    read: Callable[[FactSheet], Iterable[Reading]]
    limit: Limit = NO_LIMIT
    says: Mapping[str, Message] = field(default_factory=dict)
    says_now: Mapping[str, Message] = field(default_factory=dict)
    shows: Callable[[float], str] = str
    advice: Mapping[str, Message] = field(default_factory=dict)
    leads: Mapping[str, Way] = field(default_factory=dict)
    fix: Fix | None = None
    severity: str = ""
    icon: str = "error"
    snooze: Callable[[str, timedelta, str], object] | None = None

    @property
    def number(self) -> str:
        """The number by which people know the watch, such as `G7`; "" for none."""
        return self.key if self.key.startswith("G") else ""

    def say(self, kind: str, name: str, value: float, limit: Limit) -> Message | None:
        """The sentence that a subject is wrong, its figures in the language of the moment; None for
        a kind that the watch does not read."""
        if kind not in self.says:
            return None
        return Message(self.says[kind].template, **self._figures(name, value, limit))

    def _figures(self, name: str, value: float, limit: Limit) -> dict[str, str]:
        least = "" if limit.threshold is None else self.shows(limit.threshold)
        return {"name": name, "value": self.shows(value), "limit": least}

    def say_now(self, read: Reading, name: str, limit: Limit) -> Message | None:
        """The sentence of a reading, with all its figures if it has them."""
        value = read.value or 0.0
        if not read.facts:
            return self.say(read.kind, name, value, limit)
        said = self.says_now[read.kind].template
        return Message(said, **self._figures(name, value, limit), **read.facts)

    def _pages(self, read: Reading) -> list[Way]:
        pages = [*WAYS.get(read.kind, ()), self.leads.get(read.kind), read.via]
        return [each for each in pages if each is not None]

    def is_seen(self, read: Reading, may: Callable[[str], bool]) -> bool:
        """Whether somebody with these permissions may see the page of the subject, if it has
        one."""
        pages = self._pages(read)
        return not pages or may(pages[0].permission)

    def ways(self, read: Reading, may: Callable[[str], bool]) -> list[tuple[Message, str]]:
        """The labels and addresses of what somebody with these permissions can open or mend; [] if
        they may not see the page of the subject."""
        pages = self._pages(read)
        if not self.is_seen(read, may):
            return []
        found = [(way.label, way.url(read.name, read.row)) for way in pages if may(way.permission)]
        ways = [(label, url) for label, url in found if url]
        if self.fix is not None and may(CONFIGURES):
            url = reverse("governance_fix", args=[self.key])
            ways.append((self.fix.label, f"{url}?{urlencode({'subject': read.name})}"))
        return ways


_NO_TYPE = _("There is no job type {name} (yet).")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleWatch(Watch):
    """A watch for alert rules: its `label` there, and the target to which a rule may be limited,
    mostly a job type; `missing` says that no target has the name, `nothing` when there is something
    to read."""

    label: Message
    has_target: Callable[[str], bool] = lambda name: bool(names_among([name]))
    missing: Message = _NO_TYPE
    nothing: Message | None = None

    def missing_target(self, name: str) -> Message | None:
        """The sentence that a rule is limited to what does not exist."""
        if not name or self.has_target(name):
            return None
        return Message(self.missing.template, name=name)


class WatchResult(NamedTuple):
    """The findings of a watch, each with its sentence; `unknown` is why it could not look, which
    is a fault of the watch itself if `is_broken`."""

    watch: Watch
    findings: list[Reading]
    unknown: Message | None = None
    is_broken: bool = False


def visible_findings(found: WatchResult, may: Callable[[str], bool]) -> WatchResult | None:
    """The findings about what somebody with these permissions may see; None when there are only
    others, so that no page says that all is well."""
    shown = [each for each in found.findings if found.watch.is_seen(each, may)]
    return None if found.findings and not shown else found._replace(findings=shown)


def look(watch: Watch, sheet: FactSheet, *, has_snoozed: bool = False) -> WatchResult:
    """Look once, by the watch's own limit; snoozed findings are returned only if `has_snoozed`.

    One that stumbles, over a value that a person wrote by SQL, takes no other with it.
    """
    try:
        with apart(f"the check {watch.key}", but=(DatabaseError, NotKnown)) as tried:
            return WatchResult(watch, _findings(watch, sheet, has_snoozed=has_snoozed))
    except NotKnown as error:
        return WatchResult(watch, [], error.why)
    why = _(
        "The check “{title}” fails, so nobody hears of what it watches: {error}",
        title=watch.title,
        error=redact(tried.error),
    )
    return WatchResult(watch, [], why, is_broken=True)


def _findings(watch: Watch, sheet: FactSheet, *, has_snoozed: bool) -> list[Reading]:
    wrong: dict[str, list[Reading]] = {}
    for each in watch.read(sheet):
        is_wanted = has_snoozed or each.snoozed_until is None
        if is_wanted and each.value is not None and watch.limit.is_passed(each.value):
            wrong.setdefault(each.kind, []).append(each)
    # Many of one kind leave room for those of another.
    read = [each for some in wrong.values() for each in some[:MAX_FOUND]]
    names = names_of(each.subject for each in read if not each.text)
    return [_worded(watch, each, names.get(each.subject, "")) for each in read]


def _worded(watch: Watch, read: Reading, name: str) -> Reading:
    text = read.text or watch.say_now(read, name, watch.limit)
    if not text:
        raise LookupError(f"{watch.key} says nothing of a {read.kind}")
    return read._replace(text=text, why=read.why or watch.advice.get(read.kind, ""))


# --- how figures are written ----------------------------------------------------------------------
def share(value: float) -> str:
    """`34 %`."""
    return f"{value:.0%}".replace("%", " %")


def time(value: float) -> str:
    """`12 min 3 s`."""
    return duration_of(int(value * 1000))
