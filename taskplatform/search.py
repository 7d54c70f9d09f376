"""The search box: by id, number, key, name, title or the text of an error.

It searches the rows that the admin of each model shows to the person. Each statement is an index
look-up or reads a limited number of the newest rows; the number of statements depends on the term
only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import Model, Q
from django.http import HttpRequest
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext

from apps.common.admin.base import PlatformModelAdmin
from apps.common.admin.changelist import tidy_search
from apps.common.admin.display import shown_text
from apps.common.errors import Invalid
from apps.common.json.search import require_unmasked
from apps.common.lookups import folding
from apps.common.masking import redact
from apps.common.masking.search import is_said, may_say
from apps.common.readers import read_key, read_number
from apps.dispatch.rules.task import read_label
from apps.jobs.models import Job
from apps.jobs.services.job_filters import JobFilters
from apps.journal.models import JournalEntry
from taskplatform.menu import Tab
from taskplatform.search_kinds import (
    KINDS,
    MAX_ENTRIES,
    MAX_JOBS,
    MAX_SHOWN,
    Kind,
    Query,
    edges,
    newest,
    titled,
    with_pk,
)

MIN_TEXT = 3
# Two Chinese characters are a word.
MIN_WIDE_TEXT = 2
_PAYLOADS = ("context.", "result.")


@dataclass(frozen=True, slots=True)
class Term:
    """The typed text, and what it can be: a number, a key, the label of a task."""

    text: str
    number: int | None = None
    key: str | None = None
    task: tuple[str, int] | None = None

    @classmethod
    def read(cls, typed: str) -> Term:
        text = tidy_search(typed).strip()
        return cls(text, read_number(text), read_key(text) or None, read_label(text))

    @property
    def is_text(self) -> bool:
        """Whether the term is long enough to search texts for."""
        return len(self.text) >= (MIN_TEXT if self.text.isascii() else MIN_WIDE_TEXT)


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that was found; `detail` distinguishes it from similar ones, `acts` are the words and
    addresses of what can be done at once."""

    url: str
    title: str
    detail: str = ""
    acts: Sequence[tuple[str, str]] = ()
    row: Any = None


@dataclass(frozen=True, slots=True)
class HitGroup:
    """The first hits of one kind; `more_url` is the list of all of them, if there is one."""

    title: str
    hits: Sequence[Hit]
    has_more: bool = False
    more_url: str = ""
    model: type[Model] | None = None


def find(request: HttpRequest, term: Term) -> list[HitGroup]:
    """The groups with hits, in the order of KINDS, and errors with the text."""
    found = find_rows(request, term, KINDS)
    if term.is_text and (term.number is None or not found):
        found += filter(None, [_errors(request, term)])
    return found


def find_rows(request: HttpRequest, term: Term, kinds: Iterable[Kind]) -> list[HitGroup]:
    """The groups of these kinds with hits, in their order."""
    if not term.text:
        return []
    kinds = [*kinds]
    found = [*filter(None, (_group(request, k, term, *_exactly(k, term)) for k in kinds))]
    # A number occurs in many texts, so texts are searched only if no row has it.
    if term.is_text and (term.number is None or not found):
        known = {hit.url for group in found for hit in group.hits}
        oldest = edges([k.model for k in kinds if k.by_title and _searched(request, k.model)])
        for kind in kinds:
            by_title = partial(titled, edge=oldest.get(kind.model, 0)) if kind.by_title else None
            group = _group(request, kind, term, kind.by_text or by_title, term.text)
            hits = [] if group is None else [each for each in group.hits if each.url not in known]
            if group is not None and hits:
                found.append(replace(group, hits=hits))
    return found


def _errors(request: HttpRequest, term: Term) -> HitGroup | None:
    """The errors with the text, or with that key, among the newest entries."""
    # Imported late, because the admin classes register with the site that searches.
    from taskplatform.search_errors import errors_in

    model_admin = _searched(request, JournalEntry)
    if model_admin is None:
        return None
    wanted = may_say("error", term.text)
    if term.key is not None:
        wanted |= Q(error_key=term.key)

    def is_meant(entry: JournalEntry) -> bool:
        return entry.error_key == term.key or is_said(entry.error, term.text)

    entries = newest(model_admin.get_queryset(request), MAX_ENTRIES)
    found = errors_in(request, entries, wanted, is_meant, limit=MAX_SHOWN + 1)
    hits = [Hit(each.url, each.title, each.detail, each.acts) for each in found[:MAX_SHOWN]]
    return HitGroup(gettext("Errors"), hits, len(found) > MAX_SHOWN) if hits else None


def _exactly(kind: Kind, term: Term) -> tuple[Query | None, Any]:
    """The query that finds rows of the kind by the term, None for none, and its value."""
    if term.task is not None and getattr(kind.model, "source", "") == term.task[0]:
        return with_pk, term.task[1]
    if kind.by_number is not None and term.number is not None:
        return kind.by_number, term.number
    return (None if term.key is None else kind.by_key), term.key


def _group(
    request: HttpRequest, kind: Kind, term: Term, query: Query | None, value: Any
) -> HitGroup | None:
    model_admin = None if query is None else _searched(request, kind.model)
    if query is None or model_admin is None:
        return None
    visible = model_admin.get_queryset(request)
    if kind.related:
        # MariaDB would start a join at the shorter table and sort all rows of the longer one.
        visible = visible.prefetch_related(*kind.related)
    found = list(query(visible, value)[: MAX_SHOWN + 1])
    if not found:
        return None
    has_more = len(found) > MAX_SHOWN
    return HitGroup(
        str(kind.model._meta.verbose_name_plural),
        [_hit(model_admin, kind, row) for row in found[:MAX_SHOWN]],
        has_more,
        f"{model_admin.changelist_url()}?{urlencode({'q': term.text})}"
        if has_more and kind.has_list
        else "",
        kind.model,
    )


def _searched(request: HttpRequest, model: type[Model]) -> PlatformModelAdmin | None:
    """The admin of the model, when this person may see its rows."""
    model_admin = admin.site._registry.get(model)
    if not isinstance(model_admin, PlatformModelAdmin):
        return None
    return model_admin if model_admin.has_view_or_change_permission(request) else None


def _hit(model_admin: PlatformModelAdmin, kind: Kind, row: Any) -> Hit:
    title, details = kind.describe(row)
    return Hit(
        model_admin.row_url(row.pk),
        shown_text(str(title), limit=120),
        " · ".join(shown_text(redact(str(each)), limit=200) for each in details if each),
        row=row,
    )


def payloads_with(request: HttpRequest, term: Term) -> tuple[int, str] | None:
    """The number of the newest jobs with the value at the path, `context.city:Rome`, and their
    list; None for another text, for no such job, and for people who may not see payloads."""
    model_admin = _searched(request, Job)
    if model_admin is None or not model_admin.has_payload_permission(request):
        return None
    if ":" not in term.text or not term.text.startswith(_PAYLOADS):
        return None
    try:
        wanted = JobFilters.read_address({"where": term.text}, get_current_timezone())
        require_unmasked(wanted.where)
    except Invalid:
        return None
    rows = JobFilters.narrow(newest(model_admin.get_queryset(request), MAX_JOBS), wanted)
    count = rows.order_by().values("pk")[:MAX_JOBS].count()
    url = f"{model_admin.changelist_url()}?{urlencode({'where': term.text})}"
    return (count, url) if count else None


def pages_named(pages: Iterable[Tab], term: Term) -> HitGroup | None:
    """The menu entries with a word that begins with the term; Chinese does not part its words."""
    begins = r"\b" if term.text.isascii() else ""
    named = re.compile(begins + folding(term.text))
    hits = [
        Hit(page.link, page.words)
        for page in pages
        if term.text and named.search(f"{page.words} {page.was}")
    ]
    return HitGroup(gettext("Entries of the menu"), hits) if hits else None
