"""What the runs of a schedule say of it."""

from __future__ import annotations

import pytest

from apps.schedules.rules.trouble import trouble_of


def test_trouble_by_the_newest_runs(subtests: pytest.Subtests) -> None:
    for newest_first, trouble in (
        ("", ""),
        ("failed failed", ""),
        ("failed failed failed", "failing"),
        ("failed failed succeeded failed", ""),
        ("succeeded failed failed failed", ""),
        ("failed cancelled failed failed", ""),
        # Open and skipped runs neither fail nor succeed.
        ("open failed open failed skipped failed", "failing"),
        ("refused", "unmade"),
        ("skipped refused succeeded", "unmade"),
        ("open refused", ""),
        ("refused failed failed failed", "unmade"),
        # A refused run is over, too.
        ("open failed failed refused", ""),
    ):
        with subtests.test(newest_first=newest_first):
            outcomes = [each.replace("open", "") for each in newest_first.split()]
            assert trouble_of(outcomes) == trouble
