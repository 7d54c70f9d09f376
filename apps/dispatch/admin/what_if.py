"""The button *What if?* on the forms of tasks, which shows the effect of a save without one.

The button sends the form like a save. Errors that a save would raise are shown in the same places;
otherwise the page shows the form as it was typed, with the comparison above it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from functools import partial
from typing import Any, NamedTuple

from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.display import listed, shown_text
from apps.dispatch.admin.preview import PERIODS, Line, RepeatedItem, lines, runs
from apps.dispatch.models import Executor, OnceTask, RotateTask
from apps.dispatch.services.preview import Period
from apps.dispatch.services.what_if import (
    MAX_MEMBERS,
    Change,
    WhatIf,
    what_if_created,
    what_if_updated,
)

BUTTON = "_what_if"
USUAL = "7"
# Further queues show one line until they are opened.
MAX_OPEN = 3
# Unchanged lines shown on either side of a change.
CONTEXT = 2

ADDED, REMOVED, MOVED, CHANGED = "added", "removed", "moved", "changed"
WORDS: dict[str, str | Promise] = {
    "": "",
    ADDED: _("added"),
    REMOVED: _("removed"),
    MOVED: _("moved"),
    CHANGED: pgettext_lazy("in a queue", "changed"),
}


class Pair(NamedTuple):
    """One line of the comparison: a run before, after, or both, and the kind of its change."""

    before: RepeatedItem | None
    after: RepeatedItem | None
    mark: str = ""


def compared(before: Sequence[RepeatedItem], after: Sequence[RepeatedItem]) -> list[Pair]:
    """Both queues side by side. A run that is in both but in another place is moved."""
    old, new = _keys(before), _keys(after)
    in_old, in_new = set(old), set(new)
    pairs: list[Pair] = []
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind == "equal":
            both = zip(before[start:end], after[new_start:new_end], strict=True)
            pairs += [Pair(one, other, "" if one == other else CHANGED) for one, other in both]
            continue
        for run, key in zip(before[start:end], old[start:end], strict=True):
            pairs.append(Pair(run, None, MOVED if key in in_new else REMOVED))
        for run, key in zip(after[new_start:new_end], new[new_start:new_end], strict=True):
            pairs.append(Pair(None, run, MOVED if key in in_old else ADDED))
    return pairs


def _keys(shown: Sequence[RepeatedItem]) -> list[tuple[Any, ...]]:
    """The identity of each run, whatever its time; a blocking task may have several runs."""
    seen: Counter[tuple[Any, ...]] = Counter()
    keys = []
    for item, _times in shown:
        key = (item.source, item.task, item.occurrence_at)
        seen[key] += 1
        keys.append((*key, seen[key]))
    return keys


@dataclass(frozen=True, kw_only=True)
class DiffRow:
    """A line of the table, or the number of unchanged ones that are `skipped`."""

    before: Line | None = None
    after: Line | None = None
    before_mark: str = ""
    after_mark: str = ""
    skipped: int = 0

    @property
    def marked(self) -> Iterator[tuple[Line, str]]:
        """The lines that change, a moved one where it goes to."""
        if self.before is not None and self.before_mark == REMOVED:
            yield self.before, REMOVED
        if self.after is not None and self.after_mark:
            yield self.after, self.after_mark

    @property
    def before_word(self) -> str:
        return str(WORDS[self.before_mark])

    @property
    def after_word(self) -> str:
        return str(WORDS[self.after_mark])


def compare_new(
    request: HttpRequest,
    model: type[OnceTask] | type[RotateTask],
    fields: dict[str, Any],
) -> dict[str, Any]:
    """The queues without and with a new task of these fields, for the page."""
    return _compare(request, partial(what_if_created, model, fields=fields))


def compare_edit(
    request: HttpRequest,
    task: OnceTask | RotateTask,
    changes: dict[str, Any],
    *,
    version: int,
) -> dict[str, Any]:
    """The queues without and with these changes of the task, for the page."""
    compare = partial(what_if_updated, task=task, changes=changes, version=version)
    return _compare(request, compare)


def _compare(request: HttpRequest, compare: Callable[..., WhatIf]) -> dict[str, Any]:
    """The comparison for the period of the button."""
    chosen = request.POST.get(BUTTON, "")
    chosen = chosen if chosen in PERIODS else USUAL
    now = clock.now()
    period = Period(now, now + PERIODS[chosen][0])
    return _shown(request, compare(period=period, now=now), chosen, now)


def _shown(request: HttpRequest, comparison: WhatIf, chosen: str, now: datetime) -> dict[str, Any]:
    pks = [change.executor.pk for change in comparison.changes]
    visible = Executor.objects.visible_to(request.user).filter(pk__in=pks)
    seen = set(visible.values_list("pk", flat=True))
    queues = [
        _queue(request, change, now) for change in comparison.changes if change.executor.pk in seen
    ]
    changed = [queue for queue in queues if queue["rows"]]
    for queue in changed[:MAX_OPEN]:
        queue["is_open"] = True
    return {
        "summary": _summary(changed),
        "more_members": comparison.more_members,
        "max_members": MAX_MEMBERS,
        "periods": [(key, text, key == chosen) for key, (_length, text) in PERIODS.items()],
        "queues": queues,
    }


def _queue(request: HttpRequest, change: Change, now: datetime) -> dict[str, Any]:
    before, after = runs(change.before.items), runs(change.after.items)
    pairs = compared(before, after)
    counts = _counts(pairs)
    return {
        "name": _name(change.executor),
        "uid": change.executor.name if change.executor.title else "",
        "is_group": change.executor.is_group,
        "counts": counts,
        "summary": _in_words(counts) or gettext("no change"),
        "rows": list(_rows(pairs, request, now)) if counts.total() else [],
        "is_open": False,
        "is_cut": change.before.more or change.after.more,
    }


def _name(executor: Executor) -> str | SafeString:
    if not executor.title:
        return executor.name
    return format_html("<bdi>{}</bdi>", shown_text(executor.title, limit=80))


def _summary(changed: Sequence[dict[str, Any]]) -> SafeString:
    """`uid_ann and 2 more: 3 added. First: Count the till (added), 2026-03-02 09:00:00 UTC+8.`"""
    if not changed:
        return SafeString(gettext("No queue changes in this period."))
    # The queue of a group repeats the changes of its members' queues.
    named = [queue for queue in changed if not queue["is_group"]] or changed
    who, others = named[0]["name"], len(named) - 1
    if others:
        words = ngettext("{name} and {count} more", "{name} and {count} more", others)
        who = format_html(words, name=who, count=others)
    counts: Counter[str] = sum((queue["counts"] for queue in named), Counter())
    marked = [each for queue in named for row in queue["rows"] for each in row.marked]
    line, mark = min(marked, key=lambda each: each[0].item.at)
    return format_html(
        gettext("{who}: {changes}. First: {title} ({what}), {at}."),
        who=who,
        changes=_in_words(counts),
        title=format_html("<bdi>{}</bdi>", line.title),
        what=WORDS[mark],
        at=gettext("now") if line.is_now else line.at,
    )


def _counts(pairs: Sequence[Pair]) -> Counter[str]:
    """How many changes of each kind there are."""
    counts = Counter(pair.mark for pair in pairs if pair.mark)
    # A move appears on both sides and counts once.
    counts[MOVED] = sum(pair.mark == MOVED and pair.after is not None for pair in pairs)
    return counts


def _in_words(counts: Counter[str]) -> str:
    """`2 added, 1 removed`; empty for no change."""
    words = {
        ADDED: ngettext("%d added", "%d added", counts[ADDED]),
        REMOVED: ngettext("%d removed", "%d removed", counts[REMOVED]),
        MOVED: ngettext("%d moved", "%d moved", counts[MOVED]),
        CHANGED: ngettext("%d changed", "%d changed", counts[CHANGED]),
    }
    return listed(words[mark] % counts[mark] for mark in words if counts[mark])


def _rows(pairs: Sequence[Pair], request: HttpRequest, now: datetime) -> Iterator[DiffRow]:
    near = {
        position + step
        for position, pair in enumerate(pairs)
        if pair.mark
        for step in range(-CONTEXT, CONTEXT + 1)
    }
    before = iter(lines([p.before for p in pairs if p.before], request.user, now=now))
    after = iter(lines([p.after for p in pairs if p.after], request.user, now=now))
    skipped = 0
    for position, pair in enumerate(pairs):
        old = None if pair.before is None else next(before)
        new = None if pair.after is None else next(after)
        if position not in near:
            skipped += 1
            continue
        if skipped:
            yield DiffRow(skipped=skipped)
            skipped = 0
        yield DiffRow(
            before=old,
            after=new,
            before_mark=pair.mark if old is not None and pair.mark != CHANGED else "",
            after_mark=pair.mark if new is not None else "",
        )
    if skipped:
        yield DiffRow(skipped=skipped)
