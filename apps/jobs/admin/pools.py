"""Pools in the admin: what waits and who holds it, and rebuilding a pool from lines of keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.actions import actor_of
from apps.common.admin.buttons import Button
from apps.common.admin.csv_text import BYTE_ORDER_MARK, CsvForm
from apps.common.admin.display import beside, listed, shown_actor, shown_text, shown_time, translate
from apps.common.admin.html import list_url
from apps.common.errors import PlatformError
from apps.common.readers import is_key
from apps.jobs.admin import labels
from apps.jobs.admin.worker_links import KeyNames, WorkerLinks
from apps.jobs.models import Job, JobType, bounds_of
from apps.jobs.rules.order import MAX_SCORE, Score, score_key
from apps.jobs.rules.submission import MAX_KEY
from apps.jobs.services.pool_rebuild import EVENT, Rebuilt, foresee, rebuild_whole
from apps.jobs.services.pool_status import Holding, Status, status_of
from apps.journal.models import JournalEntry, Source

MAX_POOLS = 50
MAX_WORKERS = 20
MAX_LINES = 10_000
COLUMNS = ("key", "score")
_NUMBER = re.compile(r"[+-]?[0-9]{1,16}(\.[0-9]{1,16})?")


# --- the list -------------------------------------------------------------------------------------
class _Rebuild(NamedTuple):
    """The latest finished rebuild: its name, when and how long ago it was, and whose."""

    name: str
    at: SafeString
    ago: str
    actor: str


class _Holder(NamedTuple):
    """A worker with keys of the pool."""

    link: SafeString
    key: SafeString
    held: int
    ends: str


class _Pool(NamedTuple):
    """A line of the list."""

    name: str
    title: str
    url: str
    jobs_url: str
    held_url: str
    status: Status
    workers: Sequence[_Holder]
    more: int
    latest: _Rebuild | None
    rebuild_url: str


def pools_view(request: HttpRequest, *, model_admin: Any) -> HttpResponseBase:
    """All pools that the person sees, each with what waits and who holds how many keys."""
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    rows = visible_pools(request).order_by("name")[: MAX_POOLS + 1]
    page: HttpResponseBase = model_admin.page(
        request,
        "admin/pools.html",
        title=_("Pools"),
        pools=[_line(request, model_admin, row) for row in rows[:MAX_POOLS]],
        is_cut=len(rows) > MAX_POOLS,
        types_url=model_admin.changelist_url(),
    )
    return page


def visible_pools(request: HttpRequest) -> Any:
    """The types that are pools, as far as the person sees them."""
    return JobType.objects.visible_to(request.user).filter(pool=True)


def _line(request: HttpRequest, model_admin: Any, row: JobType) -> _Pool:
    status = status_of(row.name)
    may_rebuild = may_operate(request)
    return _Pool(
        name=row.name,
        title=shown_text(row.title, limit=80),
        url=model_admin.change_url(row.pk),
        jobs_url=list_url(Job, type=row.name, status="ready"),
        held_url=list_url(Job, type=row.name, status="running"),
        status=status,
        workers=_holders(status.workers[:MAX_WORKERS]),
        more=max(0, len(status.workers) - MAX_WORKERS),
        latest=_latest(row),
        rebuild_url=model_admin.url("rebuild", row.pk) if may_rebuild else "",
    )


def _holders(found: Sequence[Holding]) -> list[_Holder]:
    links = WorkerLinks([each.worker for each in found])
    keys, now = KeyNames([each.client for each in found]), clock.now()
    return [
        _Holder(
            link=links.link(each.worker, each.client),
            key=keys.name(each.client),
            held=each.held,
            ends=labels.relative(each.oldest_lease_until, now),
        )
        for each in found
    ]


def _latest(row: JobType) -> _Rebuild | None:
    entries = JournalEntry.objects.timeline(Source.PLAN, row.pk).filter(event=EVENT)
    entry = entries.order_by("-id").first()
    if entry is None:
        return None
    name = str((entry.data or {}).get("rebuild", ""))
    ago = labels.relative(entry.at, clock.now())
    return _Rebuild(name, shown_time(entry.at), ago, shown_actor(entry.actor))


def may_operate(request: HttpRequest) -> bool:
    """Whether the person may change all jobs of a type that they see."""
    user: Any = request.user
    return bool(user.has_perm("jobs.operate_job")) and bounds_of(user).users is None


def pool_buttons(request: HttpRequest, model_admin: Any, row: JobType) -> list[Button]:
    """The buttons on the page of a type that is a pool."""
    if not row.pool:
        return []
    pages = [(model_admin.url("pools"), _("Pools"), "inventory_2")]
    if may_operate(request):
        pages.append((model_admin.url("rebuild", row.pk), _("Rebuild the pool"), "sync_alt"))
    return [Button(url=url, text=text, icon=icon) for url, text, icon in pages]


# --- rebuilding -----------------------------------------------------------------------------------
class KeysForm(CsvForm):
    """Lines of a key and its score; a valid form has its `items`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, columns=COLUMNS, needed=COLUMNS, **kwargs)

    def _read(self, text: str) -> list[dict[str, str]]:
        self.items: dict[str, Score] = {}
        for number, line in enumerate(text.lstrip(BYTE_ORDER_MARK).splitlines(), start=1):
            cells = [cell.strip(' \t"') for cell in line.split(",")]
            if not any(cells) or (number == 1 and tuple(map(str.lower, cells)) == COLUMNS):
                continue
            if len(self.items) == MAX_LINES:
                raise ValidationError(
                    gettext("At most %d keys at once; use the API for more.") % MAX_LINES
                )
            key, score = _cells(number, cells)
            if key in self.items:
                message = gettext("Line %(number)d: the key %(key)s is there twice.")
                raise ValidationError(message % {"number": number, "key": key})
            self.items[key] = score
        return []


def _cells(number: int, cells: Sequence[str]) -> tuple[str, Score]:
    """The key and the score of a line; ValidationError with its number."""
    if len(cells) != 2:
        raise ValidationError(
            gettext("Line %d is no key and score with a comma between them.") % number
        )
    key, text = cells
    if not is_key(key, MAX_KEY):
        message = gettext(
            "Line %(number)d: %(key)s is no key; use 1 to %(limit)d letters, digits and "
            "_ . : @ / + -"
        )
        facts = {"number": number, "key": repr(key[:60]), "limit": MAX_KEY}
        raise ValidationError(message % facts)
    try:
        score = _score(text)
    except ValueError as error:
        message = gettext(
            "Line %(number)d: %(score)s is no score; write a number with at most three decimals, "
            "less than %(limit)s on both sides of 0."
        )
        facts = {"number": number, "score": repr(text[:40]), "limit": f"{MAX_SCORE:,}"}
        raise ValidationError(message % facts) from error
    return key, score


def _score(text: str) -> Score:
    """The score; ValueError when the text is none."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text} is no number")
    score = float(text) if "." in text else int(text)
    score_key(score)
    return score


def rebuild_view(request: HttpRequest, *, model_admin: Any, pk: int) -> HttpResponseBase:
    """The form; its first POST says what would change, the confirmed one changes it."""
    row = visible_pools(request).filter(pk=pk).first()
    if not model_admin.has_view_permission(request) or not may_operate(request):
        raise PermissionDenied
    if row is None:
        return HttpResponseRedirect(model_admin.url("pools"))
    form = KeysForm(*((request.POST, request.FILES) if request.method == "POST" else ()))
    context: dict[str, Any] = {
        "title": gettext("Rebuild the pool %s") % row.name,
        "form": form,
        "back_url": model_admin.url("pools"),
        "limit": f"{MAX_LINES:,}",
    }
    if form.is_valid() and "confirmed" in request.POST:
        if _carried_out(request, model_admin, row, form):
            return HttpResponseRedirect(model_admin.url("pools"))
    elif form.is_valid():
        found = foresee(pool=row.snapshot, items=form.items)
        context |= {
            "text": form.cleaned_data["text"],
            "count": len(form.items),
            "changes": _changes(found),
            "is_empty": not form.items,
        }
    page: HttpResponseBase = model_admin.page(request, "admin/pool_rebuild.html", **context)
    return page


def _carried_out(request: HttpRequest, model_admin: Any, row: JobType, form: KeysForm) -> bool:
    try:
        done = rebuild_whole(pool=row.snapshot, items=form.items, actor=actor_of(request))
    except PlatformError as error:
        form.add_error(None, translate(error.detail))
        return False
    words = listed(f"{capfirst(str(word))} {count:,}" for word, count in _changes(done))
    text = gettext("Pool %(name)s is rebuilt. %(changes)s.") % {"name": row.name, "changes": words}
    level = messages.SUCCESS
    if done.more:
        more = gettext("There was not enough time for all: rebuild it again.")
        text = beside(text, more)
        level = messages.WARNING
    model_admin.message_user(request, text, level)
    return True


def _changes(found: Rebuilt) -> list[tuple[Any, int]]:
    """The changes in words, each with its number of keys."""
    return [
        (_("new"), found.added),
        (_("new score"), found.moved),
        (_("as before"), found.unchanged),
        (_("held by workers"), found.held),
        (_("withdrawn"), found.withdrawn),
    ]
