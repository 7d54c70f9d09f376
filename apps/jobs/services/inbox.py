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

from apps.common import clock
from apps.common.db import (
    exclusive_lock,
    execute,
    fetch,
    instant,
    placeholders,
    table,
    time_text,
    transactional,
)
from apps.common.errors import FieldError, Invalid, PlatformError, TooLarge, refusal
from apps.common.json.text import parse_json
from apps.common.json_rules import MAX_BYTES, check_size
from apps.common.messages import Message as _
from apps.common.readers import read_instant
from apps.common.rows import update_rows
from apps.jobs.models import Bounds, InboxRow
from apps.jobs.services.submit import Submission, submit_many
from apps.jobs.services.submit_check import faults_of
from apps.journal.services.edit import Revision, record_edit, take_version

SWEEP = "jobs.inbox"
# Rows of one transaction.
BLOCK = 1000
# The largest size of one context as text, and of all contexts that are read at once: with blanks
# and escapes the text may be longer than the JSON itself.
MAX_TEXT = 4 * MAX_BYTES
_READ_AT_ONCE = 16 * MAX_TEXT
BY = "inbox"
_CONTEXT = _("The context")
_FIELDS = ("type", "job_key", "context", "run_at", "priority", "user_id", "unique_job")
# Times and flags are read as text, so that no driver converts a value that a program wrote into
# SQLite.
_SELECT = ", ".join(
    time_text(name) if name in ("run_at", "unique_job") else name for name in ("id", *_FIELDS)
)
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
        f"SELECT id, LENGTH(context) FROM {_waiting()} ORDER BY id LIMIT %s"
        f"{exclusive_lock(skip_locked=True)}",
        [BLOCK],
    )
    sizes = _first_that_fit(locked)
    refused: dict[int, PlatformError] = {
        number: _too_large(size) for number, size in sizes.items() if size > MAX_TEXT
    }
    jobs: dict[int, Submission] = {}
    timeless = []
    for number, *values in _read([number for number in sizes if number not in refused]):
        try:
            jobs[number] = _submission(*values)
        except PlatformError as error:
            column = error.errors[0].field if error.errors else ""
            refused[number] = refusal(error.errors) if column in _FIELDS else error
            if column == "run_at":
                timeless.append(number)
    for number, faults in zip(jobs, faults_of([*jobs.values()], _OUTSIDE), strict=True):
        if faults:
            refused[number] = refusal(_as_columns(faults))
    made = [number for number in jobs if number not in refused]
    submit_many([jobs[number] for number in made], by=BY, bounds=_OUTSIDE)
    if made:
        execute(f"DELETE FROM {table(InboxRow)} WHERE id IN ({placeholders(len(made))})", made)
    _refuse(refused, timeless)
    return len(sizes), len(sizes) < BLOCK and len(sizes) == len(locked)


def _waiting() -> str:
    return f"{table(InboxRow)} WHERE refused_at IS NULL"


def _first_that_fit(locked: Iterable[tuple[int, int | None]]) -> dict[int, int]:
    """The first locked rows whose contexts fit into memory well together, with their sizes."""
    sizes: dict[int, int] = {}
    total = 0
    for number, size in locked:
        total += min(size or 0, MAX_TEXT)
        if sizes and total > _READ_AT_ONCE:
            break
        sizes[number] = size or 0
    return sizes


def _read(numbers: Sequence[int]) -> list[tuple[Any, ...]]:
    if not numbers:
        return []
    return fetch(
        f"SELECT {_SELECT} FROM {table(InboxRow)} "
        f"WHERE id IN ({placeholders(len(numbers))}) ORDER BY id",
        numbers,
    )


def _submission(
    type_: Any, key: Any, context: Any, run_at: Any, priority: Any, user_id: Any, is_unique: Any
) -> Submission:
    """The job that a row asks for; PlatformError where it cannot be read. SQLite keeps values of
    any kind in any column."""
    value = parse_json((_text(context).strip() or "{}").encode(), what=_CONTEXT)
    check_size(value, field="context")
    return Submission(
        type=_text(type_),
        key=_text(key),
        context=value,
        run_at=_instant(run_at),
        priority=priority,
        user_id=_text(user_id),
        unique=_flag(is_unique),
    )


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return "" if value is None else str(value)


def _flag(value: Any) -> bool:
    text = str(int(value)) if isinstance(value, bool) else _text(value)
    if text not in _FLAGS:
        message = _("{value} is neither 0 nor 1.", value=text[:40])
        raise Invalid.field("unique_job", message)
    return _FLAGS[text]


def _instant(value: Any) -> datetime | None:
    if value is None or isinstance(value, datetime):
        return value
    try:
        return read_instant(_text(value), UTC)
    except Invalid as error:
        raise Invalid.field("run_at", error.detail) from error


def _too_large(size: int) -> PlatformError:
    message = _("A text of {size} bytes; the limit is {limit}.", size=size, limit=MAX_TEXT)
    return refusal([FieldError("context", TooLarge.code, message)])


def _as_columns(faults: Iterable[FieldError]) -> list[FieldError]:
    """The faults of a submission, named by the columns of the table."""
    return [FieldError(_COLUMNS.get(e.field, e.field), e.code, e.message) for e in faults]


def _refuse(refused: Mapping[int, PlatformError], timeless: Sequence[int]) -> None:
    if not refused:
        return
    now = clock.now()
    said = {number: {"refused_at": now, "error": e.detail} for number, e in refused.items()}
    update_rows(InboxRow, said, raised=["version"])
    if timeless:
        # The error quotes the text that was no time; Django cannot read it from a column of times.
        places = placeholders(len(timeless))
        execute(f"UPDATE {table(InboxRow)} SET run_at = NULL WHERE id IN ({places})", timeless)


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
