"""Where the messages of the admin wait for the next page."""

from __future__ import annotations

from typing import Any

from django.contrib.messages.storage.session import SessionStorage
from django.http import HttpResponseBase

# Of htmx, and of our own scripts.
_SCRIPTS = ("HX-Request", "X-Requested-With")


class PageMessages(SessionStorage):
    """Messages of the session, for pages that people open.

    A script may fetch a part of the old page while a form is on its way: what it gets is thrown
    away or shows something else, so it leaves the messages to the page that follows.
    """

    def update(self, response: HttpResponseBase) -> list[Any] | None:
        """Store what is unread, as Django does, and all of it after a page for a script."""
        if any(name in self.request.headers for name in _SCRIPTS):
            self.used = False
        return super().update(response)
