"""Where the messages of the admin wait for the next page."""

from __future__ import annotations

import secrets
from typing import Any

from django.contrib.messages import middleware
from django.contrib.messages.storage.session import SessionStorage
from django.http import HttpResponseBase

from apps.common.addresses import pages_only

# Of htmx, and of our own scripts.
_SCRIPTS = ("HX-Request", "X-Requested-With")
_KEY = "message:"


@pages_only
class MessageMiddleware(middleware.MessageMiddleware):
    """Django's, for pages."""


class PageMessages(SessionStorage):
    """Messages of the session, for pages that people open.

    A script may fetch a part of the old page while a form is on its way: what it gets is thrown
    away or shows something else, so it leaves the messages to the page that follows. Each message
    has a key of its own, because pages of several tabs add and show some at the same time.
    """

    def update(self, response: HttpResponseBase) -> list[Any] | None:
        """Store what is unread, as Django does, and all of it after a page for a script."""
        if any(name in self.request.headers for name in _SCRIPTS):
            self.used = False
        return super().update(response)

    def _get(self, *args: Any, **kwargs: Any) -> tuple[list[Any], bool]:
        messages = []
        for key in self._keys():
            for message in self.deserialize_messages(self.request.session[key]) or ():
                message.key = key
                messages.append(message)
        return messages, True

    def _store(self, messages: Any, response: Any, *args: Any, **kwargs: Any) -> list[Any]:
        session = self.request.session
        unread = {getattr(message, "key", "") for message in messages}
        for key in self._keys():
            if key not in unread:
                del session[key]
        for message in messages:
            if not hasattr(message, "key"):
                session[_KEY + secrets.token_hex(8)] = self.serialize_messages([message])
        return []

    def _keys(self) -> list[str]:
        """The keys of the stored messages, the oldest first."""
        return [key for key in self.request.session.keys() if key.startswith(_KEY)]
