"""Texts that are cut before they are masked show no part of a secret."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.bulk.services.carry import MAX_WHY
from apps.common.masking import redact
from apps.common.texts import begin_of, end_of
from apps.jobs.rules.job_log import MAX_LINE, line
from apps.jobs.rules.outcome import MAX_MEMO, Outcome
from apps.jobs.runner import attempt
from apps.journal.services import writing
from apps.reports.services import error_groups
from apps.schedules.services import make
from taskplatform import sdk

SECRET = "q7xhunter2z9y"
PIECES = [SECRET[at : at + 5] for at in range(len(SECRET) - 4)]
# Each is known for a secret by what stands behind it, or by its length.
NOTATIONS = (
    f"https://ann:{SECRET}@shop.example/in is down",
    f"mysql://ann:{SECRET}/a@db",
    f"AKIAABCDEFGHIJKLMNOP {SECRET:q<40} refused",
    f"key eyJhbGciOiJI.eyJzdWIi{SECRET}.abcdefg0 refused",
    f"password: {SECRET} and more",
    f'{{"api_key": "{SECRET}"}}',
    f"Authorization: Bearer {SECRET}abc, refused",
)


def shows(text: str) -> list[str]:
    """The pieces of the secret that whoever sees masks reads."""
    shown = redact(text)
    return [piece for piece in PIECES if piece in shown]


def last_error(text: str) -> str:
    return Outcome(id=1, token="t", end="failed", summary=text).last_error


def error_of_handler(text: str) -> str:
    error = attempt._cut(text + " end" * 10_000)
    return error[: error.index("… ")]


def end_of_error(text: str) -> str:
    error = attempt._cut("begin " * 10_000 + text)
    return error[error.index("cut out") :]


def begin_by_sdk(text: str) -> str:
    return sdk._error_text(sdk.Fail(text + " end" * 10_000))


def end_by_sdk(text: str) -> str:
    return sdk._error_text(sdk.Fail("begin " * 10_000 + text))


def of_column(name: str) -> Callable[[str], str]:
    return lambda text: next(iter(writing._WRITTEN[name]([text])))


# How a text is kept, and by how many letters.
KEPT: tuple[tuple[Callable[[str], str], int], ...] = (
    (last_error, MAX_MEMO),
    (of_column("reason"), writing.MAX_REASON_CHARACTERS),
    (of_column("error"), writing.MAX_ERROR_CHARACTERS),
    (lambda text: error_groups._sample(text, None, "", ""), error_groups.MAX_SAMPLE),
    (lambda text: make._reason(make.PlatformError(text)), make.MAX_WHY),
    (lambda text: begin_of(text, MAX_WHY), MAX_WHY),
    (lambda text: line(0, text), MAX_LINE),
    (error_of_handler, attempt.MAX_ERROR - attempt._MAX_TAIL - 100),
    (begin_by_sdk, sdk._MAX_ERROR - 3100),
)


def test_no_text_is_cut_within_a_secret(subtests: pytest.Subtests) -> None:
    for keep, most in KEPT:
        for notation in NOTATIONS:
            with subtests.test(f"{keep} {most} {notation}"):
                for within in range(1, len(notation)):
                    before = "x " * (most // 2) + "y" * (most % 2)
                    kept = keep(before[within:] + notation)
                    assert len(before) - within - 2 <= len(kept)
                    assert shows(kept) == []


def test_end_of_a_text_does_not_begin_within_a_secret(subtests: pytest.Subtests) -> None:
    for keep, most in ((end_of_error, attempt._MAX_TAIL), (end_by_sdk, 3000)):
        for notation in NOTATIONS[:2]:
            with subtests.test(f"{keep} {notation}"):
                for within in range(1, len(notation)):
                    kept = keep(f" {notation}" + " y" * ((most - within) // 2))
                    assert shows(kept) == []


def test_what_is_short_enough_stays_as_it_is() -> None:
    assert (begin_of("a b ", 4), end_of(" a b", 4)) == ("a b ", " a b")
    assert (begin_of("one two", 6), end_of("one two", 6)) == ("one", "two")
    # Something is left of a text without blanks.
    assert (begin_of("x" * 100, 10), len(end_of("x" * 10_000, 9_000))) == ("x" * 5, 7_000)


@given(text=st.text(alphabet="ab \n\t", max_size=60), most=st.integers(1, 60))
def test_begin_and_end_are_whole_words(text: Any, most: int) -> None:
    begin, end = begin_of(text, most), end_of(text, most)
    assert text.startswith(begin) and text.endswith(end)
    assert max(len(begin), len(end)) <= most
    if len(begin) < len(text) and len(begin) != most // 2:
        assert text[len(begin)].isspace()
