"""Values from text: what is one, and that they are read in one place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from apps.common.conf import parse_size
from apps.common.readers import is_key, read_id, read_integer, read_key, read_number

ROOT = Path(__file__).resolve().parents[3]
# How a second reader would spell what a key or a number is, and who may: it reads more than that.
SPELLED = {
    r"\[A-Za-z0-9_\.:@/\+-\]": {"apps/common/readers.py"},
    r"\[[01]-9\](\[0-9\])?\{[01],1[89]\}|\\d\{1,1[89]\}": {
        "apps/common/readers.py",
        "apps/common/conf.py",  # settings, before there is anything else
        "apps/common/admin/csv_text.py",  # what is written
        "apps/common/api/serializer_fields.py",  # the OpenAPI document
        "apps/dispatch/rules/task.py",
        "apps/jobs/admin/job_fields.py",
        "apps/asyncflow/translate.py",
        "taskplatform/client/sdk.py",
        "taskplatform/sdk.py",  # the same file
    },
}


def test_number_is_digits_of_at_most_64_bits(subtests: pytest.Subtests) -> None:
    for text, number in (
        *(("0", 0), ("9" * 18, int("9" * 18)), (str(2**63 - 1), 2**63 - 1), (str(2**63), None)),
        *((text, None) for text in ("", "-1", "1.0", "1_0", " 1", "٣", "²", "1e3", "9" * 5000)),
    ):
        with subtests.test(text=text):
            assert read_number(text) == number
            assert read_id(text) == (number or None)
            assert read_integer(text) == {"-1": -1, str(2**63): 2**63}.get(text, number)
    assert (read_number("007"), read_id("007"), read_integer("+7")) == (7, None, 7)


def test_key_is_ascii_without_blanks(subtests: pytest.Subtests) -> None:
    assert read_key("uid_a.b@c-d:/+") == "uid_a.b@c-d:/+"
    assert (read_key(""), is_key("", 9), is_key("abc", 3), is_key("abc", 2)) == (
        *("", False, True, False),
    )
    for text in ("uid a", "uid_á", "a\n", "ｕ", "a\0"):
        with subtests.test(text=text):
            assert read_key(text) is None
            assert not is_key(text, 9)


def test_sizes_are_bytes(subtests: pytest.Subtests) -> None:
    cases = {"500MB": 500_000_000, "80 GB": 80 * 10**9, "2TB": 2 * 10**12, "1024": 1024}
    for text, size in cases.items():
        with subtests.test(text=text):
            assert parse_size(text) == size


def test_what_is_no_size_says_how_to_write_one(subtests: pytest.Subtests) -> None:
    for text in ("", "80G", "-1GB", "1.5GB", "80 gigabytes"):
        with subtests.test(text=text):
            with pytest.raises(ValueError, match="write for example 500MB, 80GB or 2TB"):
                parse_size(text)


def test_keys_and_numbers_are_spelled_once(subtests: pytest.Subtests) -> None:
    sources = {
        str(path.relative_to(ROOT)): path.read_text("utf-8")
        for folder in ("apps", "taskplatform")
        for path in (ROOT / folder).rglob("*.py")
        if "migrations" not in path.parts
    }
    for spelling, homes in SPELLED.items():
        with subtests.test(spelling=spelling):
            found = {name for name, text in sources.items() if re.search(spelling, text)}
            assert found == homes
