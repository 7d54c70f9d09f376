"""Forms show and take times with their seconds, in every language."""

from __future__ import annotations

from datetime import datetime
from itertools import product

import pytest
from django import forms
from django.conf import settings
from django.utils import formats, translation

LANGUAGES = [code for code, _ in settings.LANGUAGES]
AT = datetime(2026, 11, 20, 9, 30, 59)


def test_lists_show_the_seconds(subtests: pytest.Subtests) -> None:
    for language, name in product(
        LANGUAGES, ("DATETIME_FORMAT", "SHORT_DATETIME_FORMAT", "TIME_FORMAT")
    ):
        with subtests.test(language=language, name=name), translation.override(language):
            assert "09:30:59" in formats.date_format(AT, name)


def test_both_usual_ways_to_write_a_time_are_taken(subtests: pytest.Subtests) -> None:
    for language, text in product(LANGUAGES, ("2026-11-20 09:30:59", "2026/11/20 09:30:59")):
        with subtests.test(language=language, text=text), translation.override(language):
            field = forms.DateTimeField(localize=True)
            assert field.clean(text).replace(tzinfo=None) == AT
