"""Sessions that several requests of one person change at the same time.

Django stores a session as a whole, so the last to store it takes back what the others have kept.
"""

from __future__ import annotations

import copy
import logging
from typing import Any

from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.sessions import middleware
from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.exceptions import SessionInterrupted
from django.db import router, transaction
from django.http import HttpRequest, HttpResponse

from apps.common.addresses import pages_only

logger = logging.getLogger(__name__)
_NOTHING = object()


class SessionStore(db.SessionStore):
    """A session of the database that stores only what this request has changed."""

    # What the request has found; None before it has looked.
    _found: dict[str, Any] | None = None

    def load(self) -> dict[str, Any]:
        found = super().load()
        self._found = copy.deepcopy(found)
        return found

    def save(self, must_create: bool = False) -> None:
        if must_create or self.session_key is None or self._found is None:
            super().save(must_create)
            self._found = copy.deepcopy(dict(self.items()))
            return
        with transaction.atomic(using=router.db_for_write(self.model)):
            row = self.model.objects.select_for_update().filter(pk=self.session_key).first()
            if row is None:
                raise UpdateError
            self._session_cache = merged = self._merged(self.decode(row.session_data))
            row.session_data, row.expire_date = self.encode(merged), self.get_expiry_date()
            row.save(update_fields=["session_data", "expire_date"])
        self._found = copy.deepcopy(dict(self.items()))

    def _merged(self, stored: dict[str, Any]) -> dict[str, Any]:
        """What is stored now, with the changes of this request."""
        found, mine = self._found or {}, dict(self.items())
        for name in [*mine, *(found.keys() - mine.keys())]:
            value = mine.get(name, _NOTHING)
            if value == found.get(name, _NOTHING):
                continue
            if value is _NOTHING:
                stored.pop(name, None)
            else:
                stored[name] = value
        return stored


@pages_only
class SessionMiddleware(middleware.SessionMiddleware):
    """Answers also when the session has ended meanwhile: somebody has signed out in another tab.

    What was asked is done by then. The next page asks who they are.
    """

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        try:
            return super().process_response(request, response)
        except SessionInterrupted:
            logger.info("the session ended before %s was answered", request.path)
            return response


@pages_only
class PersonMiddleware(AuthenticationMiddleware):
    """Django's, for pages: who has signed in."""
