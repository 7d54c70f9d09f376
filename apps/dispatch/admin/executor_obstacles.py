"""What keeps an executor from being deleted, and what to do about it first."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from apps.dispatch.models import Executor, Task
from apps.dispatch.services.executors import referring

MAX_COUNTED = 1000
# The list of once tasks starts a week ago unless told otherwise.
FIRST_DAY = "1970-01-01"


def obstacles(executor: Executor) -> list[SafeString]:
    """Sentences, each with a way to the rows; none when nothing refers to the executor."""
    told: list[SafeString] = []
    for kind, rows in referring(executor).items():
        if kind not in ("once", "rotate"):
            told += _obstacle(executor, kind, rows)
            continue
        told += _obstacle(executor, kind, rows.exclude(status=Task.Status.DELETED))
        told += _obstacle(executor, f"deleted {kind}", rows.filter(status=Task.Status.DELETED))
    if told:
        told.append(
            format_html("{}", gettext("Or disable it: nothing is handed out to it any more."))
        )
    return told


def _obstacle(executor: Executor, kind: str, rows: QuerySet[Any]) -> list[SafeString]:
    count = len(rows.values_list("pk")[: MAX_COUNTED + 1])
    if not count:
        return []
    shown = f"{MAX_COUNTED}+" if count > MAX_COUNTED else str(count)
    sentence = _sentence(kind, count) % {"count": shown}
    if kind == "operators":
        return [format_html("{}", sentence)]
    url = _url(kind, executor.name)
    return [
        format_html('{} <a class="text-link" href="{}">{}</a>', sentence, url, gettext("Show them"))
    ]


def _sentence(kind: str, count: int) -> str:
    if kind == "once":
        return ngettext(
            "%(count)s once task is addressed to it; address it to another executor first.",
            "%(count)s once tasks are addressed to it; address them to another executor first.",
            count,
        )
    if kind == "rotate":
        return ngettext(
            "%(count)s rotation is addressed to it; address it to another executor first.",
            "%(count)s rotations are addressed to it; address them to another executor first.",
            count,
        )
    if kind.startswith("deleted"):
        return ngettext(
            "%(count)s deleted task was addressed to it, which stays for TASK_RETENTION.",
            "%(count)s deleted tasks were addressed to it, which stay for TASK_RETENTION.",
            count,
        )
    if kind == "dispatches":
        return ngettext(
            "%(count)s dispatch was made to it, which stays for DISPATCH_RETENTION.",
            "%(count)s dispatches were made to it, which stay for DISPATCH_RETENTION.",
            count,
        )
    if kind == "members":
        return ngettext(
            "%(count)s user is its member; remove that one from the group first.",
            "%(count)s users are its members; remove them from the group first.",
            count,
        )
    return ngettext(
        "%(count)s operator is limited to it and would then see everything; change that first.",
        "%(count)s operators are limited to it and would then see everything; change that first.",
        count,
    )


def _url(kind: str, name: str) -> str:
    if kind == "members":
        return f"{reverse('admin:dispatch_executor_changelist')}?group={name}"
    if kind == "dispatches":
        return f"{reverse('admin:dispatch_dispatch_changelist')}?executor={name}"
    deleted, _, source = kind.rpartition(" ")
    url = f"{reverse(f'admin:dispatch_{source}task_changelist')}?executor={name}"
    url += "&status=deleted" if deleted else ""
    return f"{url}&from_day={FIRST_DAY}" if source == "once" else url
