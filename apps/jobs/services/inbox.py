"""The inbox: rows that other programs insert become jobs.

    START TRANSACTION;
    UPDATE shop.orders SET paid = 1 WHERE id = 7;
    INSERT INTO taskplatform.jobs_inbox (type, job_key, context)
        VALUES ('receipt', 'order-7', '{"order": 7}');
    COMMIT;

Each row is made a job and deleted in one transaction, so it becomes exactly one, or none where its
unique key has an open twin. Rows of transactions that have not ended are locked and skipped.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db import connection

from apps.common import clock
from apps.common.db import (
    exclusive_lock,
    execute,
    fetch,
    instant,
    placeholders,
    raw,
    table,
    time_text,
    transactional,
)
from apps.common.errors import FieldError, Invalid, PlatformError, TooLarge, refusal
from apps.common.json.text import parse_json
from apps.common.json_rules import check_size
from apps.common.masking import kept
from apps.common.messages import Message as _
from apps.common.readers import read_instant
from apps.common.rows import update_rows
from apps.jobs.models import Bounds, InboxRow
from apps.jobs.models.inbox import MAX_TEXT, MAX_WORD
from apps.jobs.services.submit import Submission, submit_many
from apps.jobs.services.submit_check import faults_of
from apps.journal.services.edit import Revision, record_edit, take_version

SWEEP = "jobs.inbox"
# Rows of one transaction.
BLOCK = 1000
# The size of all contexts that are read at once.
_READ_AT_ONCE = 16 * MAX_TEXT
# The letters of a value that its error quotes.
MAX_SHOWN = 40
BY = "inbox"
_CONTEXT = _("The context")
_FIELDS = ("type", "job_key", "context", "run_at", "priority", "user_id", "unique_job")
_WORDS = ("type", "job_key", "user_id")
_TEXTS = (*_WORDS, "context")
# Times and flags are read as text, so that no driver converts a value that a program wrote into
# SQLite.
_AS_TEXT = ("run_at", "unique_job")
_FLAGS = {"": False, "0": False, "1": True}
# The columns that a submission names otherwise than the table.
_COLUMNS = {"key": "job_key", "unique": "unique_job"}
# As for everybody outside: the types of the platform itself are closed.
_OUTSIDE = Bounds()


def has_waiting() -> bool:
    """Whether a row waits for its job; one read of an index."""
    return bool(fetch(f"SELECT 1 FROM {_waiting()} LIMIT 1"))


class InboxState(NamedTuple):
    """How many rows wait for a person, and since when the oldest row waits for its job."""

    refused: int
    waits_since: datetime | None


def inbox_state(most: int) -> InboxState:
    """The state of the inbox, read by one statement; refused rows are counted up to `most`."""
    rows = table(InboxRow)
    [(refused, since)] = fetch(
        "SELECT (SELECT COUNT(*) FROM "
        f"(SELECT id FROM {rows} WHERE refused_at IS NOT NULL LIMIT %s) some), "
        f"(SELECT created_at FROM {_waiting()} ORDER BY id LIMIT 1)",
        [most],
    )
    return InboxState(refused, instant(since))


def move(*, seconds: float) -> int:
    """Make jobs of the waiting rows, block by block, until a block is not full or the time is over;
    returns how many rows are done."""
    until, done = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        found, is_all = _move_block()
        done += found
        if is_all:
            break
    return done


@transactional
def _move_block() -> tuple[int, bool]:
    """Move the oldest rows: each becomes a job and goes, or stays with the error. Returns how many,
    and whether these are all."""
    locked = fetch(
        f"SELECT id, LENGTH({raw('context')}) FROM {_waiting()} ORDER BY id LIMIT %s"
        f"{exclusive_lock(skip_locked=True)}",
        [BLOCK],
    )
    sizes = _first_that_fit(locked)
    refused: dict[int, PlatformError] = {
        number: _too_large(size) for number, size in sizes.items() if size > MAX_TEXT
    }
    jobs: dict[int, Submission] = {}
    rows = _read([*sizes])
    for number, values in rows.items():
        if number not in refused:
            try:
                jobs[number] = _submission(*values)
            except PlatformError as error:
                column = error.errors[0].field if error.errors else ""
                refused[number] = refusal(error.errors) if column in _FIELDS else error
    for number, faults in zip(jobs, faults_of([*jobs.values()], _OUTSIDE), strict=True):
        if faults:
            refused[number] = refusal(_as_columns(faults))
    made = [number for number in jobs if number not in refused]
    submit_many([jobs[number] for number in made], by=BY, bounds=_OUTSIDE)
    if made:
        execute(f"DELETE FROM {table(InboxRow)} WHERE id IN ({placeholders(len(made))})", made)
    _refuse(refused, rows)
    _mend([number for number, size in sizes.items() if size > MAX_TEXT])
    return len(sizes), len(sizes) < BLOCK and len(sizes) == len(locked)


def _waiting() -> str:
    return f"{table(InboxRow)} WHERE refused_at IS NULL"


def _first_that_fit(locked: Iterable[tuple[int, int | None]]) -> dict[int, int]:
    """The first locked rows whose contexts fit into memory well together, with their sizes; one
    that is too large is not read."""
    sizes: dict[int, int] = {}
    total = 0
    for number, size in locked:
        if (size or 0) <= MAX_TEXT:
            total += size or 0
        if sizes and total > _READ_AT_ONCE:
            break
        sizes[number] = size or 0
    return sizes


def _read(numbers: Sequence[int]) -> dict[int, list[Any]]:
    """The values of the rows in the order of _FIELDS, without contexts that are too large."""
    if not numbers:
        return {}
    columns = ", ".join(map(_column, _FIELDS))
    rows = fetch(
        f"SELECT id, {columns} FROM {table(InboxRow)} "
        f"WHERE id IN ({placeholders(len(numbers))}) ORDER BY id",
        numbers,
    )
    return {number: values for number, *values in rows}


def _column(name: str) -> str:
    if name == "context":
        value = raw(name)
        return f"CASE WHEN LENGTH({value}) > {MAX_TEXT} THEN NULL ELSE {value} END"
    return raw(time_text(name) if name in _AS_TEXT else name)


def _submission(
    type_: Any, key: Any, context: Any, run_at: Any, priority: Any, user_id: Any, is_unique: Any
) -> Submission:
    """The job that a row asks for; PlatformError where it cannot be read. SQLite keeps values of
    any kind in any column."""
    text = _text("context", context).strip()
    value = parse_json((text or "{}").encode(), what=_CONTEXT)
    check_size(value, field="context")
    return Submission(
        type=_text("type", type_),
        key=_text("job_key", key),
        # Programs wrote it: the error would say whether a secret fits the present schema.
        context=kept(value),
        run_at=_instant(run_at),
        priority=_number(priority),
        user_id=_text("user_id", user_id),
        unique=_flag(is_unique),
    )


def _text(column: str, value: Any) -> str:
    if not isinstance(value, bytes):
        return "" if value is None else str(value)
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        shown = value[:MAX_SHOWN].decode(errors="replace")
        raise Invalid.field(column, _("{value} is not text in UTF-8.", value=shown)) from error


def _number(value: Any) -> Any:
    """The value, which is judged later: text is no number."""
    return _text("priority", value) if isinstance(value, bytes) else value


def _flag(value: Any) -> bool:
    text = str(int(value)) if isinstance(value, bool) else _text("unique_job", value)
    if text not in _FLAGS:
        message = _("{value} is neither 0 nor 1.", value=text[:MAX_SHOWN])
        raise Invalid.field("unique_job", message)
    return _FLAGS[text]


def _instant(value: Any) -> datetime | None:
    if value is None or isinstance(value, datetime):
        return value
    try:
        return read_instant(_text("run_at", value), UTC)
    except Invalid as error:
        raise Invalid.field("run_at", error.detail) from error


def _too_large(size: int) -> PlatformError:
    message = _("A text of {size} bytes; the limit is {limit}.", size=size, limit=MAX_TEXT)
    return refusal([FieldError("context", TooLarge.code, message)])


def _as_columns(faults: Iterable[FieldError]) -> list[FieldError]:
    """The faults of a submission, named by the columns of the table."""
    return [FieldError(_COLUMNS.get(e.field, e.field), e.code, e.message) for e in faults]


def _refuse(refused: Mapping[int, PlatformError], rows: Mapping[int, Sequence[Any]]) -> None:
    if not refused:
        return
    now = clock.now()
    said = {number: {"refused_at": now, "error": e.detail} for number, e in refused.items()}
    update_rows(InboxRow, said, raised=["version"])
    _turn_into_text([*refused])
    for number in refused:
        _write(number, _legible(dict(zip(_FIELDS, rows[number], strict=True))))


def _turn_into_text(numbers: Sequence[int]) -> None:
    """Store as text what drivers bind as bytes, such as JSON of Go and Node. Only SQLite keeps it
    as it came, and Django would read bytes from columns of text."""
    if connection.vendor != "sqlite":
        return
    texts = ", ".join(f"{name} = CAST({name} AS TEXT)" for name in _TEXTS)
    kinds = ", ".join(f"typeof({name})" for name in _TEXTS)
    execute(
        f"UPDATE {table(InboxRow)} SET {texts} WHERE id IN ({placeholders(len(numbers))}) "
        f"AND 'blob' IN ({kinds})",
        numbers,
    )


def _mend(numbers: Iterable[int]) -> None:
    """Make contexts legible that are too large to be read with others: one after another. Only
    SQLite keeps what is no text."""
    if connection.vendor != "sqlite":
        return
    for number in numbers:
        rows = fetch(f"SELECT {raw('context')} FROM {table(InboxRow)} WHERE id = %s", [number])
        _write(number, _legible({"context": rows[0][0]}))


def _write(number: int, values: Mapping[str, str | None]) -> None:
    if values:
        names = ", ".join(f"{name} = %s" for name in values)
        execute(f"UPDATE {table(InboxRow)} SET {names} WHERE id = %s", [*values.values(), number])


def _legible(values: Mapping[str, Any]) -> dict[str, str | None]:
    """What is stored in place of values that Django cannot read from their columns, or that no
    such column of MariaDB would take; the error of the row quotes them."""
    found: dict[str, str | None] = {}
    for name, value in values.items():
        text = value.decode(errors="replace") if isinstance(value, bytes) else value
        if name == "run_at":
            if not _is_instant(value):
                found[name] = None
        elif isinstance(value, bytes) and text.encode() != value:
            found[name] = text
        if name in _WORDS and isinstance(text, str) and len(text) > MAX_WORD:
            found[name] = text[:MAX_WORD]
    return found


def _is_instant(value: Any) -> bool:
    try:
        _instant(value)
    except Invalid:
        return False
    return True


# --- by hand ------------------------------------------------------------------------------------
def correct(
    *, row: InboxRow, version: int | None, changes: Mapping[str, Any], actor: str, reason: str
) -> InboxRow:
    """Change a refused row, of which the next sweep makes a job.

    Invalid names each column that is still wrong; Conflict when somebody was faster, NotFound when
    it is gone.
    """
    return _correct(row, version, changes, actor, reason)


@transactional
def _correct(
    row: InboxRow, version: int | None, changes: Mapping[str, Any], actor: str, reason: str
) -> InboxRow:
    revision = Revision.of(row, version)
    revision.fill(changes)
    now, found = clock.now(), revision.row
    require_right(found)
    found.refused_at, found.error = None, ""
    revision.write("inbox_corrected", now=now, actor=actor, reason=reason)
    return found


def require_right(row: InboxRow) -> None:
    """PlatformError when no job can be made of the row as things are now."""
    if row.is_too_large:
        raise _too_large(len((row.context or "").encode()))
    job = _submission(*(getattr(row, name) for name in _FIELDS))
    if faults := faults_of([job], _OUTSIDE)[0]:
        raise refusal(_as_columns(faults))


@transactional
def discard(*, row: InboxRow, actor: str, reason: str) -> None:
    """Delete a refused row; the journal keeps it. NotFound when it is gone."""
    found = take_version(row)
    record_edit(
        found,
        "inbox_discarded",
        before=found.journal_values(),
        now=clock.now(),
        actor=actor,
        reason=reason,
    )
    found.delete()
