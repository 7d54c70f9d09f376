"""Links to workers, and the API keys of those over HTTP by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from apps.access.models import ApiClient
from apps.common.admin.display import shown_text
from apps.common.admin.html import page_link
from apps.jobs.models import Worker


def may_see_keys(request: HttpRequest) -> bool:
    """Whether this person may see the pages of API keys."""
    user: Any = request.user
    return bool(user.has_perm("access.view_apiclient"))


class WorkerLinks:
    """The pages of the workers of these names, read at once. Workers that have been gone for a week
    have none: only their names remain."""

    def __init__(self, names: Iterable[str]) -> None:
        wanted = {name for name in names if name}
        rows = Worker.objects.filter(name__in=wanted).values_list("name", "client", "pk")
        self._known = list(rows) if wanted else []

    def link(self, name: str, client: str | None = None) -> SafeString:
        """The name, linked if there is one such worker; `client` None: of any API key."""
        found = [
            pk
            for known, owner, pk in self._known
            if known == name and (client is None or owner == client)
        ]
        if len(found) != 1:
            return format_html("{}", shown_text(name))
        return page_link(Worker, found[0], shown_text(name))


class KeyNames:
    """The names of API keys by their client ids, read at once; linked for those who see keys."""

    def __init__(self, clients: Iterable[str], *, are_linked: bool = False) -> None:
        wanted = {client for client in clients if client}
        rows = ApiClient.objects.filter(client_id__in=wanted).values_list("client_id", "pk", "name")
        self._known = {client: (pk, name) for client, pk, name in rows} if wanted else {}
        self._are_linked = are_linked

    def name(self, client: str) -> SafeString:
        """The key's name; its client id if there is no such key any more."""
        if client not in self._known:
            return format_html("{}", shown_text(client))
        pk, name = self._known[client]
        if not self._are_linked:
            return format_html("{}", shown_text(name))
        return page_link(ApiClient, pk, shown_text(name))
