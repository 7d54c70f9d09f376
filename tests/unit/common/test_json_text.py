"""JSON as people type it into a form."""

from __future__ import annotations

import pytest
from django import forms

from apps.common.admin.json_text import read_json


def test_text_that_no_database_could_keep_is_refused_with_its_reason(
    subtests: pytest.Subtests,
) -> None:
    for text, message in (
        ("{", "The text is not JSON from line 1, column 2"),
        ('{"a": 1, "a": 2}', "'a' occurs twice"),
        # Names are compared in a time that grows with their number, not with its square.
        ("{" + "".join(f'"{n}":1,' for n in range(25_000)) + '"a":1,"a":2}', "'a' occurs twice"),
        ("NaN", "NaN is not a JSON number"),
        ("[" * 100_000, "at most 20 are read"),
        ("[" * 21 + "]" * 21, "at most 20 are read"),
        ("1" * 5000, "64 bits"),
        ('"\\ud800"', "surrogates"),
        ('"\\u0000"', "NUL"),
        ("18446744073709551616", "64 bits"),
    ):
        with subtests.test(text=text[:50]), pytest.raises(forms.ValidationError, match=message):
            read_json(text)
