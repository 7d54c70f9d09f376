"""Settings that contradict each other stop the start with a message that says what to do."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.dispatch.conf import DispatchConf


def test_nothing_is_forgotten_before_it_is_in_the_archive(subtests: pytest.Subtests) -> None:
    """S0.8."""
    for given in (
        {"DISPATCH_RETENTION": "30d"},
        {"TASK_RETENTION": "30d"},
        {"TASK_ARCHIVE_AFTER": "400d"},
        {"DISPATCH_RETENTION": "12d", "DISPATCH_ARCHIVE_AFTER": "13d"},
    ):
        with subtests.test(given=given):
            with pytest.raises(
                ImproperlyConfigured, match="raise the first, lower the second, or set"
            ):
                DispatchConf.from_environment(given)


def test_nothing_goes_to_the_archive_that_still_decides(subtests: pytest.Subtests) -> None:
    """S0.8, I6."""
    for given in (
        {"DISPATCH_LOOKBACK": "30d"},
        {"DISPATCH_ARCHIVE_AFTER": "191h"},
        {"TASK_ARCHIVE_AFTER": "191h"},
    ):
        with subtests.test(given=given):
            with pytest.raises(ImproperlyConfigured, match="must be at least a day longer than"):
                DispatchConf.from_environment(given)


def test_what_fits_together_is_taken(subtests: pytest.Subtests) -> None:
    for given in (
        {},
        {"DISPATCH_RETENTION": "0", "TASK_RETENTION": "0"},
        {"DISPATCH_RETENTION": "31d", "TASK_RETENTION": "31d"},
        {"DISPATCH_LOOKBACK": "29d"},
        {"DISPATCH_ARCHIVE_AFTER": "192h"},
    ):
        with subtests.test(given=given):
            DispatchConf.from_environment(given)
