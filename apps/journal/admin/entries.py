"""The journal in the admin: read-only, newest first, never counted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import (
    column,
    duration_of,
    error_column,
    label,
    listed,
    shown_actor,
    shown_text,
    time_column,
)
from apps.common.admin.html import link, noted, page_link
from apps.common.admin.json_fields import json_field
from apps.common.admin.keyset import KeysetAdmin
from apps.common.admin.machine_rows import MachineRowAdmin
from apps.common.admin.timeline import Moment
from apps.common.admin.who import Known, known
from apps.common.masking import redact
from apps.common.readers import read_key, read_number
from apps.journal.admin import words
from apps.journal.admin.filters import FILTERS, person_of
from apps.journal.admin.subjects import leads_on, names_of, page_of, unnamed
from apps.journal.models import JournalEntry, Source
from apps.journal.services.undo import RECORD

MAX_MOMENTS = 200
MAX_VALUE = 120
MAX_REASON = 200
MAX_DETAILS = 16_000

# Shown otherwise, or only for programs.
ASIDE = {RECORD, "before", "after", "report", "exception", "summary"}
_SOURCE_COLOURS: dict[str, str] = {
    Source.DISPATCH: "info",
    Source.JOB: "primary",
    Source.PLAN: "",
    Source.SCHEDULE: "",
    Source.FLOW: "",
    Source.ACCESS: "warning",
    Source.WORKER: "",
    Source.SINK: "",
}


def moments(entries: Iterable[JournalEntry], *, user: Any, shows_payload: bool) -> list[Moment]:
    """The entries as a timeline for this account; lists and objects in them are shown only with
    `shows_payload`."""
    entries = list(entries)
    people = people_of(entries, user)
    return [_moment(entry, people, shows_payload) for entry in entries]


def people_of(entries: Iterable[JournalEntry], user: Any) -> Mapping[str, Known]:
    """Whom the entries name, as far as the account may see them, in one statement."""
    names: set[str] = set()
    for entry in entries:
        data = entry.data or {}
        names |= {entry.executor, entry.actor}
        for facts in (data, data.get("before") or {}, data.get("after") or {}):
            for name in words.PEOPLE & facts.keys():
                names.update(_names(facts[name]))
    return known(names, user)


def _names(value: Any) -> list[str]:
    return [str(each) for each in (value if isinstance(value, list) else [value]) if each]


def latest_moments(
    source: str,
    *subjects: int,
    named: str = "",
    user: Any,
    shows_payload: bool,
    limit: int = MAX_MOMENTS,
) -> list[Moment]:
    """The last `limit` entries about each subject as a timeline, oldest first; `named` is what
    they call it where the numbers of several tables share a source."""
    found: list[JournalEntry] = []
    for subject in subjects:
        entries = JournalEntry.objects.timeline(source, subject)
        if named:
            entries = entries.filter(type_or_task=named)
        found += reversed(entries.order_by("-id")[:limit])
    return moments(found, user=user, shows_payload=shows_payload)


def _moment(entry: JournalEntry, people: Mapping[str, Known], shows_payload: bool) -> Moment:
    event = words.event_of(entry.event)
    if event.failed is not None and entry.to_state == "failed":
        event = event.failed
    facts: list[tuple[str, object]] = []
    is_of_job = entry.source == Source.JOB
    if entry.attempt is not None and (is_of_job or entry.attempt > 1):
        facts.append((gettext("try"), entry.attempt))
    if entry.wait_ms is not None:
        facts.append((gettext("waited"), duration_of(entry.wait_ms)))
    if entry.run_ms is not None:
        facts.append((gettext("took"), duration_of(entry.run_ms)))
    if is_of_job and entry.host:
        facts.append((gettext("host"), entry.host))
    error = redact(entry.error.strip())
    if error:
        named = words.reason_of(entry.error_line)
        facts.append((gettext("error"), shown_text(named, limit=MAX_VALUE)))
    is_long = "\n" in error or len(error) > MAX_VALUE
    facts += _changes(entry.data or {}, people, shows_payload)
    return Moment(
        at=entry.at,
        text=str(event.words),
        icon=event.icon,
        colour=event.colour,
        actor=actor_by_name(entry.actor, people),
        reason=shown_text(words.reason_of(entry.reason)),
        facts=facts,
        details=shown_text(error, limit=MAX_DETAILS) if is_long else "",
    )


def actor_by_name(actor: str, people: Mapping[str, Known]) -> str:
    """Name who did something; people of tasks with their title."""
    return shown_actor(people[actor].text if actor in people else actor)


def _changes(
    data: Mapping[str, Any], people: Mapping[str, Known], shows_payload: bool
) -> list[tuple[str, object]]:
    """The facts in an entry's data: `before` → `after` by name, then the others."""
    before, after = data.get("before") or {}, data.get("after") or {}
    facts: list[tuple[str, object]] = []
    for name in sorted({*before, *after}):
        old, new = (shown_value(name, each, people, shows_payload) for each in (before, after))
        if old is None or new is None:
            value = new if old is None else old
        else:
            value = old if old == new else f"{old} → {new}"
        if value not in (None, ""):
            facts.append((words.name_of(name), value))
    others = {name: data[name] for name in data if name not in ASIDE}
    facts += [
        (words.name_of(name), shown)
        for name in others
        if (shown := shown_value(name, others, people, shows_payload)) not in (None, "")
    ]
    return facts


def shown_value(
    name: str, values: Mapping[str, Any], people: Mapping[str, Known], shows_payload: bool
) -> str | None:
    """The value of that name as people read it, its secrets masked; None for none."""
    if name not in values:
        return None
    if name in words.PEOPLE and (named := _names(values[name])):
        texts = listed(people[each].text if each in people else each for each in named)
        return shown_text(texts, limit=MAX_VALUE)
    value = redact({name: values[name]})[name]
    if isinstance(value, dict | list) and name not in words.FORMATTERS:
        if not value:
            return "" if isinstance(value, list) else "{}"
        if not shows_payload:
            return gettext("(not shown)")
        return shown_text(json.dumps(value, ensure_ascii=False), limit=MAX_VALUE)
    return shown_text(words.value_of(name, value), limit=MAX_VALUE)


class JournalEntryAdmin(KeysetAdmin, MachineRowAdmin):
    """Every state change; the search compares whole numbers of subjects, or names of executors.

    Only subject and person of an entry have an index, because every index slows each change of
    state; so other filters examine `max_examined` rows a page.
    """

    when_empty = _("Every change of state is recorded here.")
    list_display = (
        "shown_at",
        "source_and_event",
        "about",
        "shown_executor",
        "shown_actor",
        "shown_reason",
    )
    list_mobile = (
        ("source_and_event", "about"),
        ("shown_at", "shown_executor", "shown_actor", "shown_reason"),
    )
    list_display_links = ("shown_at",)
    list_filter = FILTERS
    list_defer = ("data", "error")
    export_columns = tuple(
        (name, name)
        for name in (
            *("id", "at", "source", "subject_id", "event", "from_state", "to_state", "attempt"),
            *("type_or_task", "executor", "worker", "host", "actor", "reason", "wait_ms", "run_ms"),
            *("error_key", "trace_id"),
        )
    )
    search_help_text = _("Subject number or person")
    exact_search = (("subject_id", read_number), ("executor", read_key))
    payload_fields = ("shown_data",)
    fieldsets = (
        (None, {"fields": ("shown_at", "shown_source", "subject", "shown_event", "arrow")}),
        (
            _("Who and where"),
            {
                "fields": (
                    "type_or_task",
                    "shown_executor",
                    "shown_actor",
                    "shown_reason",
                    "worker",
                    "host",
                    "trace_id",
                )
            },
        ),
        (_("Data"), {"fields": ("shown_data",)}),
    )

    shown_at = time_column("at", _("at"))
    shown_data = json_field("data", _("data"))
    shown_error = error_column("error", _("error"))

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        first, who, *data = super().get_fieldsets(request, obj)
        fields = ("attempt", "waited", "took", "shown_error", "error_key")
        return [first, who, (_("Try"), {"fields": fields}), *data]

    def prepare_row(self, request: HttpRequest, row: Any) -> None:
        of = row.type_or_task if row.subject_id is None else row.subject_id
        parts = (row.get_source_display(), of, words.event_of(row.event).words)
        row.page_title = " · ".join(str(part) for part in parts if part)
        self.prepare_page(request, [row])

    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        people = known((name for row in rows for name in (row.executor, row.actor)), request.user)
        # Entries of jobs and dispatches have their type or task, which says more.
        others = [row for row in rows if row.source not in (Source.JOB, Source.DISPATCH)]
        names = names_of(request, others)
        for row in rows:
            row.people, row.names = people, names

    @column(_("who"))
    def shown_executor(self, entry: Any) -> SafeString | None:
        return entry.people[entry.executor].shown if entry.executor else None

    @column(_("source"))
    def shown_source(self, entry: JournalEntry) -> SafeString:
        return label(entry.get_source_display(), _SOURCE_COLOURS.get(entry.source, ""))

    @column(_("subject"))
    def subject(self, entry: JournalEntry) -> str | SafeString | None:
        """The number, leading to the job, dispatch or task that it is of."""
        if entry.subject_id is None:
            return None
        name = page_of(entry)
        if not name:
            return str(entry.subject_id)
        return page_link(name, entry.subject_id)

    @column(_("type or task"))
    def about(self, entry: Any) -> SafeString | str | None:
        """Name what the entry is about, leading to it; by its number where it has no name."""
        name, number = page_of(entry), entry.subject_id
        title, note = self.named(entry)
        if not title and not number:
            return None
        shown = format_html("<bdi>{}</bdi>", title or number)
        is_there = (name, number) in entry.names or leads_on(name)
        return noted(page_link(name, number, shown) if number and is_there else shown, note)

    def named(self, entry: Any) -> tuple[str, str]:
        """The name of what the entry is about, "" for none, and a note beside it."""
        named = entry.names.get((page_of(entry), entry.subject_id), "")
        return named or unnamed(entry) or entry.worker, ""

    @column(_("event"))
    def shown_event(self, entry: JournalEntry) -> str:
        return str(words.event_of(entry.event).words)

    @column(_("event"))
    def source_and_event(self, entry: JournalEntry) -> SafeString:
        return format_html(
            '<span class="stacked">{} <span>{}</span></span>',
            self.shown_source(entry),
            self.shown_event(entry),
        )

    @column(_("by"))
    def shown_actor(self, entry: Any) -> str | SafeString | None:
        """Name who did it; an account or a key leads to all that it has done."""
        text = actor_by_name(entry.actor, entry.people)
        if not entry.person:
            return text or None
        url = f"{self.changelist_url()}?{urlencode({'by': entry.person})}"
        return link(url, text)

    @column(_("reason"))
    def shown_reason(self, entry: JournalEntry) -> str | None:
        return shown_text(words.reason_of(entry.reason), limit=MAX_REASON) or None

    @column(_("state"))
    def arrow(self, entry: JournalEntry) -> str | None:
        if not entry.to_state:
            return None
        return f"{words.state_of(entry.from_state) or '·'} → {words.state_of(entry.to_state)}"

    @column(_("waited"))
    def waited(self, entry: JournalEntry) -> str | None:
        return None if entry.wait_ms is None else duration_of(entry.wait_ms)

    @column(_("took"))
    def took(self, entry: JournalEntry) -> str | None:
        return None if entry.run_ms is None else duration_of(entry.run_ms)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if read_number(search_term.strip()) is not None:
            # The index starts with the source, so all sources are named.
            queryset = queryset.filter(source__in=Source.values)
        return super().get_search_results(request, queryset, search_term)

    def found_by_index(
        self, rows: QuerySet[Any], given: Mapping[str, str], term: str
    ) -> Sequence[int] | None:
        if (number := read_number(term)) is not None:
            return self.few(rows.filter(source__in=Source.values, subject_id=number))
        # Limits of who reads would make it go through all that the person has done.
        return self.few(self.examined_rows(given)) if given.get("by") else None

    def examined_rows(self, given: Mapping[str, str]) -> QuerySet[Any]:
        """All entries, or those of one person, which an index has in order."""
        rows = super().examined_rows(given)
        return rows.filter(person=person_of(given["by"])) if given.get("by") else rows


admin.site.register(JournalEntry, JournalEntryAdmin)
