"""Settings of reports that contradict those of the journal stop the start."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.reports.conf import ReportsConf


@pytest.mark.parametrize(
    "given",
    [{"JOURNAL_RETENTION": "1d"}, {"JOURNAL_RETENTION": "9d", "REPORT_MINUTES_KEPT": "10d"}],
)
def test_minutes_of_reports_can_be_added_up_anew(given: dict[str, str]) -> None:
    """S2.8: the start stops, and says what to do."""
    with pytest.raises(ImproperlyConfigured, match=r"JOURNAL_RETENTION \(.* or set JOURNAL"):
        ReportsConf.from_environment(given)


@pytest.mark.parametrize(
    "given",
    [{}, {"JOURNAL_RETENTION": "2d"}, {"JOURNAL_RETENTION": "0", "REPORT_MINUTES_KEPT": "36500d"}],
)
def test_journal_as_long_as_minutes_is_fine(given: dict[str, str]) -> None:
    ReportsConf.from_environment(given)
