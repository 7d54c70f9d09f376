"""The connection: fewer round trips around a transaction, no ping of what just answered, and
statements without a cursor."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError
from django.db.backends.mysql import base
from MySQLdb import OperationalError
from MySQLdb.connections import Connection

if TYPE_CHECKING:
    from apps.common.db import Answer, Statement

# A server that goes away and a new one that takes its place are further apart than this.
PROVEN_SECONDS = 1.0


class Driver(Connection):  # type: ignore[misc]
    """The driver's connection, whose BEGIN goes to the server with the statement after it."""

    _begins = False

    def begin(self) -> None:
        self._begins = True

    def query(self, query: bytes) -> None:
        if not self._begins:
            super().query(query)
            return
        self._begins = False
        super().query(b"BEGIN; " + query)
        # Past the answer to BEGIN, to that of the statement.
        self.next_result()

    def commit(self) -> None:
        if self._ends():
            super().commit()

    def rollback(self) -> None:
        if self._ends():
            super().rollback()

    def _ends(self) -> bool:
        """Whether the server knows of the transaction that is over now."""
        known, self._begins = not self._begins, False
        return known


class DatabaseWrapper(base.DatabaseWrapper):
    """As Django's; only what it does beside our statements is less."""

    _used_at = float("-inf")

    def get_new_connection(self, conn_params: dict[str, Any]) -> Driver:
        return Driver(**conn_params)

    def _start_transaction_under_autocommit(self) -> None:
        # Django would switch autocommit off and on again; what BEGIN opened, COMMIT closes, and
        # the driver knows that autocommit never was off.
        self.connection.begin()

    def create_cursor(self, name: str | None = None) -> base.CursorWrapper:
        self._used_at = monotonic()
        return super().create_cursor(name)

    def ask(self, statements: Sequence[Statement]) -> list[Answer]:
        """Run the statements, of which the first that fails is the last, sent all at once.

        Through cursors, Django's around the driver's, most statements take twice the time.
        """
        if self.execute_wrappers or self.queries_logged:
            # Somebody looks on.
            return [self._ask_by_cursor(*each) for each in statements]
        self.close_if_health_check_failed()
        self.ensure_connection()
        self.validate_no_broken_transaction()
        self._used_at = monotonic()
        with self.wrap_database_errors:
            try:
                return self._ask_driver(statements)
            except OperationalError as error:
                if error.args[0] in base.CursorWrapper.codes_for_integrityerror:
                    raise IntegrityError(*error.args) from error
                raise

    def _ask_driver(self, statements: Sequence[Statement]) -> list[Answer]:
        driver = self.connection
        literal = driver.literal
        texts = [sql.encode() % tuple(map(literal, given)) for sql, given in statements]
        driver.query(b"; ".join(texts))
        answers: list[Answer] = []
        while True:
            result = driver.store_result()
            rows = () if result is None else result.fetch_row(0)
            answers.append((rows, driver.affected_rows()))
            if driver.next_result() < 0:
                return answers

    def _ask_by_cursor(self, sql: str, parameters: Sequence[Any]) -> Answer:
        with self.cursor() as cursor:
            cursor.execute(sql, parameters)
            answer = cursor.fetchall(), cursor.rowcount
            # Several statements in one.
            while cursor.nextset():
                answer = cursor.fetchall(), cursor.rowcount
            return answer

    def close_if_health_check_failed(self) -> None:
        """Before the first statement of a request: a ping, unless the connection was just used.

        If that use failed, Django has tried the connection between the requests.
        """
        if monotonic() - self._used_at < PROVEN_SECONDS:
            self.health_check_done = True
        super().close_if_health_check_failed()
