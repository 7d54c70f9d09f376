"""The connection: one round trip less around a transaction, and no ping of what just answered."""

from __future__ import annotations

from time import monotonic

from django.db.backends.mysql import base

# A server that goes away and a new one that takes its place are further apart than this.
PROVEN_SECONDS = 1.0


class DatabaseWrapper(base.DatabaseWrapper):
    """As Django's; only what it asks the server beside our statements is less."""

    _used_at = float("-inf")

    def _start_transaction_under_autocommit(self) -> None:
        # Django would switch autocommit off and on again; what BEGIN opened, COMMIT closes, and
        # the driver knows that autocommit never was off.
        with self.wrap_database_errors:
            self.connection.query("BEGIN")

    def create_cursor(self, name: str | None = None) -> base.CursorWrapper:
        self._used_at = monotonic()
        return super().create_cursor(name)

    def close_if_health_check_failed(self) -> None:
        """Before the first statement of a request: a ping, unless the connection was just used.

        If that use failed, Django has tried the connection between the requests.
        """
        if monotonic() - self._used_at < PROVEN_SECONDS:
            self.health_check_done = True
        super().close_if_health_check_failed()
