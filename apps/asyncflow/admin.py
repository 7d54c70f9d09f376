"""asyncflow: where existing workers find the platform in each dialect, and who has called."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from apps.asyncflow.call_request import mark_of
from apps.asyncflow.calls import CALLS
from apps.asyncflow.conf import conf
from apps.asyncflow.dialects import BY_NAME, Dialect
from apps.asyncflow.reads import holds_by_list
from apps.asyncflow.translate import Row, settings_of, task_id, task_of
from apps.common import clock
from apps.common.admin.display import shown_text
from apps.common.admin.durations import written
from apps.common.admin.html import page_url
from apps.jobs.admin import labels
from apps.jobs.admin.worker_links import KeyNames, may_see_keys
from apps.jobs.models import JobType, Worker
from apps.jobs.rules.transitions import RUNNING
from apps.jobs.services.register import WorkerKey
from apps.jobs.services.running import running_counts

MAX_CALLERS = 20
_TITLES = {
    "g2": _("Go: paths with /v1, names_like_this"),
    "g1": _("Go, older: paths without /v1, namesLikeThis"),
    "java": _("Java: /task/…, states as bits, milliseconds"),
    "api": _("As published: /api/task/…"),
}
_JOB, _MADE = 249880717948497921, datetime(2026, 3, 2, 9, tzinfo=UTC)
_EXAMPLE = Row(
    id=_JOB,
    type="lark",
    user_id="u-7",
    status=RUNNING,
    stage="sendmsg",
    attempts=2,
    max_attempts=3,
    holds=2,
    run_at=_MADE + timedelta(seconds=20),
    created_at=_MADE,
    held_at=_MADE + timedelta(seconds=21),
    finished_at=None,
    context={"task_context": '{"ReqBody":{"Msg":"hi"}}', "task_priority": 60},
    checkpoint={"schedule_log": "{}", "max_retry_interval": 20},
)


def asyncflow_page(request: HttpRequest) -> HttpResponse:
    """Address, switches, last callers and an example of every dialect."""
    model_admin: Any = admin.site.get_model_admin(Worker)
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    are_linked = may_see_keys(request)
    client = conf.ASYNCFLOW_LOOPBACK_CLIENT
    page: HttpResponse = model_admin.page(
        request,
        "admin/asyncflow.html",
        title="asyncflow",
        dialects=[_shown(request, each, are_linked) for each in BY_NAME.values()],
        local=client and KeyNames([client], are_linked=are_linked).name(client),
        interval=written(conf.ASYNCFLOW_INTERVAL),
        ports=", ".join(f"{name}:{port}" for name, port in conf.ASYNCFLOW_PORTS),
        list_holds=conf.ASYNCFLOW_LIST_HOLDS,
    )
    return page


def _shown(request: HttpRequest, dialect: Dialect, are_linked: bool) -> dict[str, Any]:
    base = dialect.address.removesuffix(dialect.own_base)
    port = dict(conf.ASYNCFLOW_PORTS).get(dialect.name)
    callers = Worker.objects.filter(version=mark_of(dialect)).order_by("-last_heartbeat_at", "pk")
    return {
        "name": dialect.name,
        "title": _TITLES[dialect.name],
        "address": f"{request.scheme}://<client-id>:<secret>@{request.get_host()}{base}",
        "local": f"http://127.0.0.1:{port}" if port else "",
        "list_holds": holds_by_list(dialect),
        "callers": _callers(list(callers.order_by("-last_heartbeat_at")[:MAX_CALLERS]), are_linked),
        "count": callers.count(),
        "calls": [
            {
                "methods": ", ".join(method.upper() for method in route.methods),
                "path": f"{dialect.own_base}/{route.path}",
                "scope": CALLS[route.call].scope if route.call in CALLS else "",
            }
            for route in dialect.routes
        ],
        "task": _json(_example(dialect)),
        "settings": _json(_example_settings(dialect)),
    }


def _callers(found: Iterable[Worker], are_linked: bool) -> list[dict[str, Any]]:
    """Workers by key and address: copies at one address are one."""
    rows = list(found)
    now, counts = clock.now(), running_counts(rows)
    keys = KeyNames([row.client for row in rows], are_linked=are_linked)
    return [
        {
            "name": shown_text(row.name, limit=160),
            "url": page_url(Worker, row.pk),
            "key": keys.name(row.client),
            "at": labels.time_from_now(row.last_heartbeat_at, now),
            "running": counts.get(WorkerKey(row.client, row.name), 0),
        }
        for row in rows
    ]


def _example(dialect: Dialect) -> dict[str, Any]:
    """A held task, as its worker gets it."""
    name = task_id(dialect, _JOB, _EXAMPLE.type, _EXAMPLE.holds)
    return task_of(_EXAMPLE, dialect, type_=None, task_id=name)


def _example_settings(dialect: Dialect) -> dict[str, Any]:
    """The settings of a type that was registered and not changed."""
    type_ = JobType(name=_EXAMPLE.type).snapshot
    interval = conf.ASYNCFLOW_INTERVAL
    return settings_of(type_, dialect, interval=interval, times=(_MADE, _MADE))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
