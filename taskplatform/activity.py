"""The acts of people in sentences: the tab *By people* of the journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.timezone import localdate, localtime, make_aware
from django.utils.translation import gettext

from apps.bulk.admin.undo_page import deed_url
from apps.bulk.services.undo import MAX_ROWS, deed_of
from apps.common import clock, filtering
from apps.common.admin.display import plain_time, shown_actor, shown_text
from apps.common.admin.html import page_url
from apps.common.admin.pages import framed
from apps.common.admin.who import Known
from apps.common.ids import lowest_id_at
from apps.journal.admin import words
from apps.journal.admin.entries import people_of
from apps.journal.admin.filters import person_of
from apps.journal.admin.subjects import Names, names_of, page_of
from apps.journal.models import JournalEntry
from apps.journal.services.undo import UNDONE, is_offered
from taskplatform.sentences import changes, sentence, told_by

ACTIVITY_URL = "activity"
# Entries that a page reads at most; accounts that are offered, the last signed in first.
MAX_ENTRIES, MAX_PEOPLE = 2_000, 200
MAX_REASON = 200
# The page begins with today and the day before.
DAYS = 2


@dataclass
class Deeds:
    """Equal acts of one person on rows, one soon after the other; newest first."""

    key: tuple[Any, ...]
    entries: list[JournalEntry] = field(default_factory=list)


def activity(request: HttpRequest) -> HttpResponse:
    """The page of acts of today and yesterday or of one day, of all accounts or one actor."""
    model_admin: Any = admin.site._registry[JournalEntry]
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    day, by = _day(request.GET.get("day", "")), request.GET.get("by", "").strip()
    people = _people()
    read = _entries(model_admin.get_queryset(request), people, by, day)
    entries = read[:MAX_ENTRIES]
    names, whom = names_of(request, entries), people_of(entries, request.user)
    shows_payload = model_admin.has_payload_permission(request)
    days: dict[date, list[dict[str, Any]]] = {}
    undone: set[tuple[str, str, int]] = set()
    for deeds in grouped(entries):
        line = _row(request, deeds, names, whom, shows_payload)
        subjects = {(each.source, each.type_or_task, each.subject_id) for each in deeds.entries}
        if deeds.entries[0].event == UNDONE:
            undone |= subjects
        elif subjects <= undone:
            line["undo"] = ""
        days.setdefault(localtime(deeds.entries[0].at).date(), []).append(line)
    return framed(
        request,
        "admin/activity.html",
        title=gettext("Activity"),
        days=[(_day_name(each), lines) for each, lines in days.items()],
        people=people,
        by=by.removeprefix("admin:"),
        day=day.isoformat() if day else "",
        cut=f"{MAX_ENTRIES:,}" if len(read) > MAX_ENTRIES else "",
    )


def _day(text: str) -> date | None:
    try:
        return filtering.day(text) if text else None
    except ValueError:
        return None


def _day_name(day: date) -> str:
    today = localdate(clock.now())
    if day == today:
        return gettext("Today")
    return gettext("Yesterday") if day == today - timedelta(days=1) else day.isoformat()


def _people() -> list[str]:
    accounts: Any = get_user_model()
    rows = accounts.objects.filter(is_staff=True).order_by("-last_login", "username")
    return sorted(rows.values_list("username", flat=True)[:MAX_PEOPLE])


def _entries(
    rows: QuerySet[JournalEntry], people: Iterable[str], by: str, day: date | None
) -> list[JournalEntry]:
    """The entries of these days, newest first: a range of an index for each of the people."""
    first = day or localdate(clock.now()) - timedelta(days=DAYS - 1)
    end = (day or localdate(clock.now())) + timedelta(days=1)
    bounds = [lowest_id_at(make_aware(datetime.combine(each, time.min))) for each in (first, end)]
    wanted = [person_of(by)] if by else [f"admin:{name}" for name in people]
    found = rows.filter(person__in=wanted, pk__gte=bounds[0], pk__lt=bounds[1])
    return list(found.defer("error").order_by("-pk")[: MAX_ENTRIES + 1])


def grouped(entries: Iterable[JournalEntry]) -> list[Deeds]:
    """Group equal acts that one person did in a row, whatever others did in between."""
    found: list[Deeds] = []
    last: dict[str | None, Deeds] = {}
    for entry in entries:
        kind = page_of(entry) or entry.type_or_task.partition(":")[0]
        day = localtime(entry.at).date()
        key = (day, entry.event, entry.source, kind, entry.reason, told_by(entry))
        deeds = last.get(entry.person)
        if deeds is None or deeds.key != key:
            deeds = last[entry.person] = Deeds(key)
            found.append(deeds)
        deeds.entries.append(entry)
    return found


def _row(
    request: HttpRequest,
    deeds: Deeds,
    names: Names,
    whom: Mapping[str, Known],
    shows_payload: bool,
) -> dict[str, Any]:
    newest = deeds.entries[0]
    subjects = {each.subject_id: each for each in reversed(deeds.entries)}
    return {
        "at": newest.at,
        "shown_at": plain_time(newest.at),
        "who": shown_actor(newest.actor),
        "by": newest.person,
        "sentence": sentence([*subjects.values()], names, whom, shows_payload),
        "changes": changes(newest, whom, shows_payload),
        "count": len(subjects),
        "reason": shown_text(words.reason_of(newest.reason), limit=MAX_REASON),
        "url": page_url(JournalEntry, newest.pk),
        "undo": _undo_url(request, deeds),
    }


# --- undo -----------------------------------------------------------------------------------------
def _undo_url(request: HttpRequest, deeds: Deeds) -> str:
    """The page that undoes the acts; "" where there is none for this person."""
    fresh = [entry for entry in deeds.entries if is_offered(entry.at)]
    if not fresh or len(fresh) > MAX_ROWS:
        return ""
    newest, oldest = fresh[0], fresh[-1]
    deed = deed_of(newest, oldest.pk)
    if deed is None or not newest.person:
        return ""
    return deed_url(deed) if request.user.has_perm(deed.does.permission) else ""
