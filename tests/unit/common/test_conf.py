"""How settings are written: sizes."""

from __future__ import annotations

import pytest

from apps.common.conf import parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [("500MB", 500_000_000), ("80 GB", 80 * 10**9), ("2TB", 2 * 10**12), ("1024", 1024)],
)
def test_sizes_are_bytes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "80G", "-1GB", "1.5GB", "80 gigabytes"])
def test_what_is_no_size_says_how_to_write_one(text: str) -> None:
    with pytest.raises(ValueError, match="write for example 500MB, 80GB or 2TB"):
        parse_size(text)
