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


def _answer(driver: Driver) -> Answer:
    """What the statement gave that the server has answered last."""
    rows = driver.store_result().fetch_row(0) if driver.field_count() else ()
    return rows, driver.affected_rows()


class DatabaseWrapper(base.DatabaseWrapper):
    """As Django's; only what it does beside our statements is less."""

    health_check_done: bool
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
        if self.connection is None:
            self.ensure_connection()
        self.validate_no_broken_transaction()
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
        # Each question to the driver lets other threads go first, so none is asked in vain.
        answers = [_answer(driver)]
        for _ in statements[1:]:
            driver.next_result()
            answers.append(_answer(driver))
        return answers

    def _ask_by_cursor(self, sql: str, parameters: Sequence[Any]) -> Answer:
        with self.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall(), cursor.rowcount

    def close_if_health_check_failed(self) -> None:
        """Before the first statement of a request: a ping, unless the connection was just used.

        If that use failed, Django has tried the connection between the requests.
        """
        if self.health_check_done:
            return
        now = monotonic()
        if now - self._used_at < PROVEN_SECONDS:
            self.health_check_done = True
        self._used_at = now
        super().close_if_health_check_failed()
