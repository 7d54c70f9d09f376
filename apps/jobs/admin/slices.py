"""Slices: the page that says which worker prefers which shards, and the panel of one worker."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.display import shown_text, shown_time
from apps.common.admin.html import page_url
from apps.jobs.admin import labels
from apps.jobs.admin.filters import type_names
from apps.jobs.admin.worker_links import KeyNames, WorkerLinks
from apps.jobs.models import Job, Worker, bounds_of
from apps.jobs.rules.slices import SliceMap, Slices, client_and_name
from apps.jobs.rules.submission import SHARDS
from apps.jobs.services.counts import DueJob
from apps.jobs.services.slices import MAX_IN_LINE, member_of, oldest_due, slice_map
from apps.jobs.services.type_snapshots import all_types

URL = "jobs_worker_slices"
MAX_SPARES = 20
MAX_TYPES = 50


def slices_view(request: HttpRequest, *, model_admin: Any) -> HttpResponse:
    """The owners of the shards of one type, each with its oldest due job; read from the map."""
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    now, known, types = clock.now(), slice_map(), type_names(request.user)
    asked = request.GET.get("type", "")
    served = [name for name in types if known.slices_of(name).owners]
    chosen = asked if asked in types else next(iter(served or types), "")
    page: HttpResponse = model_admin.page(
        request,
        "admin/slices.html",
        title=_("Slices"),
        types=types,
        chosen=chosen,
        is_pool=any(each.pool for each in all_types() if each.name == chosen),
        unknown=shown_text(asked, limit=80) if asked not in ("", chosen) else "",
        state=_state(known, now),
        max_in_line=f"{MAX_IN_LINE:,}",
        **(_of_type(request, known.slices_of(chosen), chosen, now) if chosen else {}),
    )
    return page


def _state(known: SliceMap, now: datetime) -> dict[str, Any] | None:
    if known.since is None:
        return None
    until = known.may_change_at(now)
    return {
        "epoch": known.epoch,
        "since": shown_time(known.since),
        "ago": labels.relative(known.since, now),
        "until": until and shown_time(until),
    }


def _of_type(request: HttpRequest, slices: Slices, type_: str, now: datetime) -> dict[str, Any]:
    spares = slices.spares[:MAX_SPARES]
    workers = _Workers([*slices.owners, *spares])
    due = oldest_due(type_, slices) if slices.owners else {}
    # A person with limits to users does not see every job of the type.
    are_linked = bounds_of(request.user).users is None
    return {
        "owners": [
            {
                **workers.shown(member),
                **_part(slices, member),
                "due": _due(due.get(member), now, is_linked=are_linked),
            }
            for member in slices.owners
        ],
        "spares": [workers.shown(member) for member in spares],
        "more_spares": len(slices.spares) - len(spares),
    }


class _Workers:
    """Members of the map, linked to their pages, with the names of their API keys."""

    def __init__(self, members: Collection[str]) -> None:
        named = [client_and_name(member) for member in members]
        self._links = WorkerLinks([name for _client, name in named])
        self._keys = KeyNames([client for client, _name in named])

    def shown(self, member: str) -> dict[str, str]:
        client, name = client_and_name(member)
        return {"link": self._links.link(name, client), "key": self._keys.name(client)}


def _part(slices: Slices, member: str) -> dict[str, Any]:
    shards = len(slices.shards_of(member))
    return {"shards": shards, "share": f"{100 * shards / SHARDS:.1f}"}


def _due(job: DueJob | None, now: datetime, *, is_linked: bool) -> dict[str, Any] | None:
    if job is None:
        return None
    url = page_url(Job, job.number) if is_linked else ""
    return {"number": job.number, "url": url, "since": labels.age(job.since, now)}


def worker_panel(worker: Worker) -> SafeString:
    """The shards of the worker and their share, for each of its types that the person sees."""
    known, member = slice_map(), member_of(worker)
    types = sorted(known.members.get(member, frozenset()).intersection(worker.types))
    lines = [{"type": name, **_part(known.slices_of(name), member)} for name in types[:MAX_TYPES]]
    context = {
        "lines": lines,
        "more": len(types) - len(lines),
        "is_member": member in known.members,
    }
    return render_to_string("admin/includes/worker_slices.html", context)
