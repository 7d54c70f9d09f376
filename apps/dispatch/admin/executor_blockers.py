"""What keeps an executor from being deleted, and what to do first."""

from __future__ import annotations

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from apps.dispatch.models import Executor
from apps.dispatch.services import executors

# The list of once tasks starts a week ago by default.
FIRST_DAY = "1970-01-01"


def blocker_sentences(executor: Executor) -> list[SafeString]:
    """A sentence for each kind of blocker, with a link to its rows; empty when there are none."""
    sentences = [_linked(executor, *blocker) for blocker in executors.blockers(executor).items()]
    if sentences:
        sentences.append(format_html("{}", gettext("Or disable it: it then gets no new tasks.")))
    return sentences


def _linked(executor: Executor, kind: str, count: int) -> SafeString:
    limit = executors.MAX_COUNTED
    sentence = _sentence(kind, count) % {"count": f"{limit}+" if count > limit else count}
    if kind == "operators":
        return format_html("{}", sentence)
    url = _url(kind, executor.name)
    return format_html(
        '{} <a class="text-link" href="{}">{}</a>', sentence, url, gettext("Show them")
    )


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
    if kind == "archived tasks":
        return ngettext(
            "%(count)s task in the archive was addressed to it, which stays for TASK_RETENTION.",
            "%(count)s tasks in the archive were addressed to it, which stay for TASK_RETENTION.",
            count,
        )
    if kind == "archived dispatches":
        return ngettext(
            "%(count)s dispatch in the archive was made to it, which stays for DISPATCH_RETENTION.",
            "%(count)s dispatches in the archive were made to it, which stay for "
            "DISPATCH_RETENTION.",
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
