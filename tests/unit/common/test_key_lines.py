"""Private keys of which each line is a text of its own."""

from __future__ import annotations

import pytest

from apps.common.masking import MASK
from apps.common.masking.key_lines import KeyLines
from tests.masks import CODE, PRIVATE_KEY

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
