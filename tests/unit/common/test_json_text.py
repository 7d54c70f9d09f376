"""JSON as people type it into a form."""

from __future__ import annotations

import pytest
from django import forms

from apps.common.admin.json_text import read_json


def test_text_that_no_database_could_keep_is_refused_with_its_reason(
    subtests: pytest.Subtests,
) -> None:
    for text, message in (
        ("{", "line 1, column 2"),
        ('{"a": 1, "a": 2}', "'a' twice"),
        # Names are compared in a time that grows with their number, not with its square.
        ("{" + "".join(f'"{n}":1,' for n in range(25_000)) + '"a":1,"a":2}', "'a' twice"),
        ("NaN", "NaN is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[" * 21 + "]" * 21, "20 levels"),
        ("1" * 5000, "too long"),
        ('"\\ud800"', "surrogates"),
        ('"\\u0000"', "NUL"),
        ("18446744073709551616", "64 bits"),
    ):
        with subtests.test(text=text[:50]), pytest.raises(forms.ValidationError, match=message):
            read_json(text)
