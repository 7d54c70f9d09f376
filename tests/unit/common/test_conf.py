"""How settings are written: sizes."""

from __future__ import annotations

import pytest

from apps.common.conf import parse_size


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
