"""Dialects of asyncflow at ports of their own, for clients whose address is written into them.

The server is given one of the applications below by its name.
"""

from __future__ import annotations

from granian.rsgi import Scope

from apps.asyncflow.dialects import BY_NAME, OWN_PORT
from taskplatform.rsgi import Application, Environ
from taskplatform.wsgi import application as django

# After the import above, which names the settings.
from django.conf import settings  # isort: skip


class AtPort(Application):
    """One dialect at the root of a port, and nothing else of the platform."""

    def __init__(self, name: str) -> None:
        super().__init__(django, threads=settings.WEB_THREADS, trusted=settings.TRUSTED_PROXIES)
        self._dialect = BY_NAME[name]

    def _environ(self, scope: Scope) -> Environ:
        environ = super()._environ(scope)
        path = environ["PATH_INFO"].removeprefix(self._dialect.own_base)
        environ["PATH_INFO"] = self._dialect.address + path
        environ[OWN_PORT] = True
        if settings.HTTPS:
            # Requests that never leave this machine need no TLS, and such clients know none.
            environ["wsgi.url_scheme"] = "https"
        return environ


g2, g1, java, api = AtPort("g2"), AtPort("g1"), AtPort("java"), AtPort("api")
