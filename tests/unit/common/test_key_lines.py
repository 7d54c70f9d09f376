"""Private keys of which each line is a text of its own."""

from __future__ import annotations

import time
from typing import Any

import pytest

from apps.common.errors import Invalid
from apps.common.masking import MASK, merge, redact
from apps.common.masking.key_lines import KeyLines
from tests.masks import CODE, KEY_LINES, PRIVATE_KEY, has_secret

BEGIN, END = PRIVATE_KEY[0], PRIVATE_KEY[-1]


def hidden(*texts: str) -> list[str]:
    keys = KeyLines()
    return [keys.hide(each) for each in texts]


@pytest.mark.parametrize("before", ["", "INFO shop: ", "2026-11-27 key> ", "line 7 - "])
def test_each_line_with_code_is_hidden_whatever_stands_before(before: str) -> None:
    said = hidden(*(before + each for each in PRIVATE_KEY))

    assert [each == MASK for each in said] == [each in CODE for each in PRIVATE_KEY]


@pytest.mark.parametrize(
    "texts",
    [
        ["MIIBOQ", "-----BEGIN CERTIFICATE-----", "MIIBOQ"],
        [f"{BEGIN}\nMIIB\n{END}", "MIIB"],
        [BEGIN, END, "MIIB"],
        [BEGIN, "Ann has paid, and 3 others", "INFO shop: 200 OK /x/"],
    ],
    ids=["no key", "a key in one text", "behind a key", "what others say"],
)
def test_what_is_no_line_of_a_key_stays(texts: list[str]) -> None:
    assert hidden(*texts) == texts


def test_end_in_the_text_of_the_last_code() -> None:
    assert hidden(BEGIN, f"MIIB\nqQ=={END}!", "MIIB")[1:] == [f"{MASK}{END}!", "MIIB"]


def test_key_that_nobody_ends_hides_no_more_than_the_longest() -> None:
    assert hidden(BEGIN, *["MIIB"] * 300)[-1] == "MIIB"
    assert hidden(BEGIN, *["MIIB"] * 200)[-1] == MASK


def test_two_keys_in_turn_whose_ends_and_begins_share_a_text() -> None:
    assert hidden(BEGIN, f"MIIB\n{END}\n{BEGIN}", "MIIC", END, "MIID") == [
        *(BEGIN, f"{MASK}{END}\n{BEGIN}", MASK, END, "MIID"),
    ]


@pytest.mark.parametrize(
    "text",
    [":" + " " * 50_000 + "!", "A" * 16 + "=" * 50_000 + "x", "a: " * 20_000 + "!", "- " * 20_000],
    ids=["blanks", "signs", "names", "dashes"],
)
def test_long_line_behind_the_begin_of_a_key_is_read_once(text: str) -> None:
    """The first two took a minute."""
    began = time.thread_time()
    hidden(BEGIN, text)
    assert time.thread_time() - began < 0.5


# --- in JSON --------------------------------------------------------------------------------------
@pytest.mark.parametrize("form", KEY_LINES)
def test_lines_in_json_are_hidden_whatever_they_are_put_into(form: Any) -> None:
    value = form(PRIVATE_KEY)
    stored = {"name": "Qw", "deep": [[value], {"more": "Qw", "and": [form(("Qw", "Qw", "Qw"))]}]}

    shown = redact(stored)

    assert not has_secret(shown)
    for code in CODE:
        assert code not in str(shown)
    # What stands before and behind is as it was.
    assert redact({**stored, "deep": stored["deep"][1:]})["deep"] == shown["deep"][1:]
    assert shown["name"] == "Qw"
    assert merge(shown, stored) == stored


# What is edited above the masks, so that nothing would say any more what they stand for.
BARED: tuple[tuple[Any, Any], ...] = (
    ([BEGIN, *CODE, END], lambda shown: ["x", *shown[1:]]),
    ([BEGIN, *CODE, END], lambda shown: [f"{BEGIN}MII{END}", *shown[1:]]),
    ([["no", BEGIN], [*CODE]], lambda shown: [["no", "x"], shown[1]]),
    ({"a": BEGIN, "b": CODE[0]}, lambda shown: {**shown, "a": "x"}),
    ({"a": BEGIN, "b": CODE[0]}, lambda shown: {"b": shown["b"]}),
    ({"a": BEGIN, "b": CODE[0]}, lambda shown: {"b": shown["b"], "a": BEGIN}),
    ({"a": BEGIN, "b": CODE[0]}, lambda shown: {"a": BEGIN, "n": END, "b": shown["b"]}),
    ({BEGIN: {CODE[0]: 1}}, lambda shown: {"x": shown[BEGIN]}),
)


@pytest.mark.parametrize(("stored", "edit"), BARED)
def test_no_edit_bares_a_line(stored: Any, edit: Any) -> None:
    edited = edit(redact(stored))
    assert MASK in str(edited)
    with pytest.raises(Invalid, match=MASK):
        merge({"key": edited}, {"key": stored})
