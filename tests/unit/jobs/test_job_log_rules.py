"""How the lines of a log are written, what of them is kept, and how they are read again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from apps.jobs.rules.job_log import (
    MAX_BYTES,
    Line,
    LogLines,
    StoredLog,
    fitting,
    line,
    lines_of,
    read,
)

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
STAMP = "2026-03-02T12:00:00.000Z "


def test_what_is_kept_of_further_lines(subtests: pytest.Subtests) -> None:
    full = StoredLog(9, MAX_BYTES)
    cases = (
        (LogLines(["a", "b"]), StoredLog(), ("a\nb", 2, 0, 4)),
        # Sent again, in part and as a whole.
        (LogLines(["a", "b"], 0), StoredLog(1, 2), ("b", 1, 0, 2)),
        (LogLines(["a", "b"], 0), StoredLog(2, 4), ("", 0, 0, 0)),
        (LogLines(["a"], 0, 3), StoredLog(), ("a", 4, 3, MAX_BYTES)),
        (LogLines(["a"], 0, 3), StoredLog(2, MAX_BYTES), ("", 2, 2, 0)),
        (LogLines(["a"], 0, 3), StoredLog(4, MAX_BYTES), ("", 0, 0, 0)),
        # Full: what is short fits no more, either.
        (LogLines(["a", "b"], 9), full, ("", 2, 2, 0)),
        (LogLines(["é" * 40_000, "a"]), StoredLog(), ("", 2, 2, MAX_BYTES)),
        (LogLines(["a", "é" * 40_000, "b"]), StoredLog(), ("a", 3, 2, MAX_BYTES)),
    )
    for said, before, expected in cases:
        with subtests.test(said=str(said)[:40], before=before):
            assert fitting(said, before) == expected


def test_lines_are_read_as_they_were_written(subtests: pytest.Subtests) -> None:
    texts = {
        "plain": Line(NOON, "plain"),
        "": Line(NOON, ""),
        "two\n2026-lines": Line(NOON, "two\n2026-lines"),
        f"{STAMP}its own": Line(NOON, "its own"),
        # What a handler logs of others makes no line of its own.
        f"said\n{STAMP}paid": Line(NOON, f"said\n {STAMP}paid"),
        "2026-02-31T12:00:00.000Z no day": Line(NOON, "2026-02-31T12:00:00.000Z no day"),
    }
    for text, shown in texts.items():
        with subtests.test(text=text):
            assert read("\n".join(lines_of([text], NOON))) == [shown]
    assert read("\n".join(lines_of([*texts], NOON))) == [*texts.values()]
    assert line(NOON.timestamp() + 0.0625, "x") == "2026-03-02T12:00:00.062Z x"


def test_a_long_line_is_cut_between_words() -> None:
    """A secret that is cut in the middle might be known for one no more."""
    [cut] = lines_of([f"{'word ' * 1500}https://ann:{'secret' * 200}@shop.example"], NOON)
    assert "secret" not in cut
    assert cut.endswith("characters left out …")
