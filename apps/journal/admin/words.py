"""The words of the journal for people: labels of events, states, facts and reasons.

The journal stores names (`task_changed`, `lease_seconds`). Each app registers the labels of the
names that it writes; a name without a label is shown with blanks for underscores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Model
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import listed, plain_time, translate
from apps.common.admin.durations import without_unit, written
from apps.common.masking import redact
from apps.common.messages import Message, pattern_of
from apps.journal.models import JournalEntry

Words = str | Promise
Page = Callable[[JournalEntry], str]


@dataclass(frozen=True)
class Event:
    """The label of an event; icon and colour are those of its moment on a timeline. `failed` stands
    in its place where it leads to the state failed.

    `said` tells what a person did who caused it, as `cancelled {what}`: {what} are the rows, other
    braces name facts of the entry. Events that only the platform writes have none. Where it is said
    otherwise of many, it is of `ngettext_lazy` and `counts` names the fact that is one or many.
    """

    words: Words
    icon: str = "circle"
    colour: str = ""
    failed: Event | None = None
    said: Words = ""
    counts: str = ""

    def sentence(self, facts: Mapping[str, Any]) -> str:
        """`said` in the language of the page, in its form for these facts."""
        if not self.counts:
            return str(self.said)
        said: Any = self.said
        return str(said % len(_each(facts.get(self.counts, ""))))


# An act that is told by what it changed, from what to what, where the entry has that.
CHANGED: Words = _("changed {what}")
EVENTS: dict[str, Event] = {}
STATES: dict[str, Words] = {}
NAMES: dict[str, Words] = {"forced": _("by force"), "rows": _("rows")}
# Labels of values, by the name of the fact.
CHOICES: dict[str, dict[Any, Words]] = {}
# How values that are no choices are formatted, by the name of the fact.
FORMATTERS: dict[str, Callable[[Any], str]] = {}
# The facts that name people, one or many.
PEOPLE: set[str] = set()
# Messages that are stored as text: a pattern of the text → the template, as the catalogue has it.
MESSAGES: dict[re.Pattern[str], str] = {}
# The URL name of the admin page of an entry's subject ("dispatch_dispatch") or "", by source; the
# first that has one counts.
PAGES: dict[str, list[Page]] = {}
# The end of the names of facts that are seconds.
SECONDS = "_seconds"


def register(
    *models: type[Model],
    events: Mapping[str, Event],
    states: Mapping[Any, Words] | None = None,
    names: Mapping[str, Words] | None = None,
    choices: Mapping[str, Mapping[Any, Words]] | None = None,
    formatters: Mapping[str, Callable[[Any], str]] | None = None,
    people: Iterable[str] = (),
    messages: Iterable[str] = (),
    former: Mapping[str, str] | None = None,
    pages: Mapping[str, Page] | None = None,
) -> None:
    """Add the words of an app; facts named like a field of its models have the field's labels.

    `former` are messages that earlier versions stored, with the one that is shown in their place.
    """
    EVENTS.update(events)
    STATES.update(states or {})
    NAMES.update(names or {})
    FORMATTERS.update(formatters or {})
    PEOPLE.update(people)
    MESSAGES.update((pattern_of(template), template) for template in messages)
    MESSAGES.update((pattern_of(old), template) for old, template in (former or {}).items())
    for source, page in (pages or {}).items():
        PAGES.setdefault(source, []).append(page)
    for name, labels in (choices or {}).items():
        CHOICES.setdefault(name, {}).update(labels)
    for field in (field for model in models for field in model._meta.concrete_fields):
        NAMES.setdefault(field.name, field.verbose_name)
        for value, label in field.flatchoices:
            CHOICES.setdefault(field.name, {}).setdefault(value, label)


def pages_by_name(pages: Mapping[str, str]) -> Page:
    """The pages of subjects that entries call by a kind and their number, as `channel:1`."""

    def page(entry: JournalEntry) -> str:
        kind, _colon, number = entry.type_or_task.partition(":")
        return pages.get(kind, "") if number == str(entry.subject_id) else ""

    return page


def event_of(name: str) -> Event:
    """The label of an event: `task_changed` is "Task changed"."""
    return EVENTS.get(name) or Event(name.replace("_", " ").capitalize())


def name_of(name: str) -> str:
    """The label of a fact: `dispatch_times` is "dispatch times"; of seconds without their unit."""
    label = str(NAMES.get(name) or name.replace("_", " "))
    return without_unit(label) if name.endswith(SECONDS) else label


def state_of(state: str) -> str:
    """The label of a state."""
    return str(STATES.get(state) or state)


def reason_of(reason: str) -> str:
    """A reason or error as people read it: those of the platform translated, secrets masked."""
    for made_by, template in MESSAGES.items():
        if match := made_by.fullmatch(reason):
            params = {name: value_of(name, value) for name, value in match.groupdict().items()}
            return str(redact(translate(Message(template, **params))))
    return str(redact(reason))


def value_of(name: str, value: object) -> str:
    """The label of a value: choices by their labels, instants in the time zone of the page, seconds
    as durations."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    if name in FORMATTERS:
        return FORMATTERS[name](value)
    if name.endswith(SECONDS) and isinstance(value, int | float):
        return written(value)
    text = str(value)
    if name.endswith(("_at", "_until")):
        return _instant(text)
    return str(CHOICES.get(name, {}).get(text) or text)


def _each(value: object) -> list[str]:
    """The values of a fact that names one or many: a list, or text with commas."""
    return list(value) if isinstance(value, list) else str(value).split(", ")


def listed_each(word: Callable[[str], str]) -> Callable[[Any], str]:
    """The formatter of a fact that names one or many, each by its `word`."""
    return lambda value: listed(map(word, _each(value)))


def _instant(text: str) -> str:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return text
    return plain_time(instant) if instant.tzinfo else text
