"""The connection: fewer round trips around a transaction, no ping of what just answered, and
statements without a cursor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError
from django.db.backends.mysql import base
from MySQLdb import OperationalError
from MySQLdb.connections import Connection
from MySQLdb.constants import FIELD_TYPE
from MySQLdb.constants.ER import SIGNAL_EXCEPTION

from apps.common.db import Unchanged, driven, written

if TYPE_CHECKING:
    from apps.common.db import Answer, Statement

# A server that goes away and a new one that takes its place are further apart than this.
PROVEN_SECONDS = 1.0
# After a statement of a block: who finds no row ends it.
_DEMAND = b"IF ROW_COUNT() < 1 THEN SIGNAL SQLSTATE '45000'; END IF"


class Driver(Connection):  # type: ignore[misc]
    """The driver's connection, whose BEGIN goes to the server with the statement after it."""

    _begins = False
    _has_committed = False

    def begin(self) -> None:
        # Who was interrupted after its COMMIT has left that behind.
        self._begins, self._has_committed = True, False

    def query(self, query: bytes) -> None:
        if not self._begins:
            super().query(query)
            return
        self._begins = False
        super().query(b"BEGIN; " + query)
        # Past the answer to BEGIN, to that of the statement.
        self.next_result()

    def conclude(self, parts: Sequence[bytes]) -> Sequence[tuple[Any, ...]]:
        """Run the statements and COMMIT as one block; returns the rows that one of them reads."""
        begin, self._begins = [b"START TRANSACTION"] * self._begins, False
        block = b"; ".join([*begin, *parts, b"COMMIT"])
        super().query(b"BEGIN NOT ATOMIC " + block + b"; END")
        rows: Sequence[tuple[Any, ...]] = ()
        if self.field_count():
            rows = self.store_result().fetch_row(0)
            # The rows come before the COMMIT is done.
            self.next_result()
        self._has_committed = True
        return rows

    def commit(self) -> None:
        if self._ends():
            super().commit()

    def rollback(self) -> None:
        if self._ends():
            super().rollback()

    def _ends(self) -> bool:
        """Whether the server is in the transaction that is over now."""
        is_in_it = not self._begins and not self._has_committed
        self._begins = self._has_committed = False
        return is_in_it


def _may_miss(sql: str) -> bool:
    """Whether the change may find no row; an INSERT of values cannot."""
    return not (sql.startswith("INSERT") and " VALUES (" in sql)


def _instant(text: str) -> datetime | None:
    """What a DATETIME holds, naive; the driver's own way takes ten times as long."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        # As the driver has it for the 0000-00-00 of old tables.
        return None


def _tell(error: OperationalError) -> None:
    """Raise what the driver takes for a failure of operation, and is none."""
    if error.args[0] in base.CursorWrapper.codes_for_integrityerror:
        raise IntegrityError(*error.args) from error
    if error.args[0] == SIGNAL_EXCEPTION:
        raise Unchanged from error


def _answer(driver: Driver) -> Answer:
    """What the statement gave that the server has answered last."""
    rows = driver.store_result().fetch_row(0) if driver.field_count() else ()
    return rows, driver.affected_rows()


class DatabaseWrapper(base.DatabaseWrapper):
    """As Django's; only what it does beside our statements is less."""

    health_check_done: bool
    _used_at = float("-inf")

    def get_new_connection(self, conn_params: dict[str, Any]) -> Driver:
        conv = {**conn_params["conv"], FIELD_TYPE.DATETIME: _instant}
        return Driver(**{**conn_params, "conv": conv})

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
        if self._is_watched:
            return [self._ask_by_cursor(*each) for each in statements]
        self.close_if_health_check_failed()
        if self.connection is None:
            self.ensure_connection()
        self.validate_no_broken_transaction()
        with self.wrap_database_errors:
            try:
                return self._ask_driver(statements)
            except OperationalError as error:
                _tell(error)
                raise

    @property
    def can_conclude(self) -> bool:
        """Whether a transaction may end by `conclude`: MySQL knows no such blocks, and where one
        goes on or somebody looks on, each statement is by itself."""
        is_outermost = self.in_atomic_block and not self.savepoint_ids
        return is_outermost and not self._is_watched and self.mysql_is_mariadb

    def conclude(
        self,
        needed: Sequence[Statement],
        besides: Sequence[Statement],
        answer: Statement | None,
    ) -> Sequence[tuple[Any, ...]]:
        """Run the changes and COMMIT in one question; returns the rows of `answer`. Unchanged when
        one of the needed changes finds no row."""
        self.validate_no_broken_transaction()
        parts = []
        for text, (sql, _) in zip(self._texts(needed), needed, strict=True):
            parts += [text, _DEMAND] if _may_miss(sql) else [text]
        parts += self._texts(besides if answer is None else [*besides, answer])
        with self.wrap_database_errors:
            try:
                rows: Sequence[tuple[Any, ...]] = self.connection.conclude(parts)
                return rows
            except OperationalError as error:
                _tell(error)
                raise

    @property
    def _is_watched(self) -> bool:
        """Whether somebody wants to see each statement by itself."""
        return bool(self.execute_wrappers) or self.queries_logged

    def _texts(self, statements: Iterable[Statement]) -> list[bytes]:
        """The statements with their parameters written out."""
        quoted, literal = self.connection.string_literal, self.connection.literal
        texts = []
        for sql, parameters in statements:
            values = []
            for each in parameters:
                # The driver's own way takes six times as long, and has another idea of instants.
                if isinstance(each, str):
                    values.append(quoted(each.encode()))
                elif type(each) is int:
                    values.append(b"%d" % each)
                elif each is None:
                    values.append(b"NULL")
                elif isinstance(each, datetime):
                    values.append(quoted(written(each).encode()))
                else:
                    values.append(literal(each))
            texts.append(sql.encode() % tuple(values))
        return texts

    def _ask_driver(self, statements: Sequence[Statement]) -> list[Answer]:
        driver = self.connection
        driver.query(b"; ".join(self._texts(statements)))
        # Each question to the driver lets other threads go first, so none is asked in vain.
        answers = [_answer(driver)]
        for _ in statements[1:]:
            driver.next_result()
            answers.append(_answer(driver))
        return answers

    def _ask_by_cursor(self, sql: str, parameters: Sequence[Any]) -> Answer:
        with self.cursor() as cursor:
            cursor.execute(sql, driven(parameters))
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
