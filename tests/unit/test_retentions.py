"""Times of keeping that contradict each other stop the start and say what to do."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.dispatch.conf import DispatchConf
from apps.jobs.conf import JobsConf
from apps.reports.conf import ReportsConf

# Nothing is forgotten before it is in the archive.
FORGOTTEN = "raise the first, lower the second, or set"
# Nothing goes to the archive that still decides.
DECIDES = "must be at least a day longer than"
# Minutes of reports can be added up anew.
UNCOUNTED = r"JOURNAL_RETENTION \(.* or set JOURNAL"
TOGETHER: tuple[tuple[Any, str, list[dict[str, str]]], ...] = (
    (
        DispatchConf,
        FORGOTTEN,
        [
            {"DISPATCH_RETENTION": "30d"},
            {"TASK_RETENTION": "30d"},
            {"TASK_ARCHIVE_AFTER": "400d"},
            {"DISPATCH_RETENTION": "12d", "DISPATCH_ARCHIVE_AFTER": "13d"},
        ],
    ),
    (
        DispatchConf,
        DECIDES,
        [
            {"DISPATCH_LOOKBACK": "30d"},
            {"DISPATCH_ARCHIVE_AFTER": "191h"},
            {"TASK_ARCHIVE_AFTER": "191h"},
        ],
    ),
    (
        DispatchConf,
        "",
        [
            {},
            {"DISPATCH_RETENTION": "0", "TASK_RETENTION": "0"},
            {"DISPATCH_RETENTION": "31d", "TASK_RETENTION": "31d"},
            {"DISPATCH_LOOKBACK": "29d"},
            {"DISPATCH_ARCHIVE_AFTER": "192h"},
        ],
    ),
    (
        JobsConf,
        FORGOTTEN,
        [
            {"JOB_RETENTION": "7d"},
            {"JOB_RETENTION": "12h", "JOB_ARCHIVE_AFTER": "1d"},
            {"JOB_ARCHIVE_AFTER": "400d"},
        ],
    ),
    # Reports are repeatable for an hour at least.
    (JobsConf, "out of range", [{"JOB_ARCHIVE_AFTER": "59m"}]),
    (JobsConf, "", [{"JOB_RETENTION": "0"}, {"JOB_RETENTION": "8d"}, {"JOB_ARCHIVE_AFTER": "1h"}]),
    (
        ReportsConf,
        UNCOUNTED,
        [{"JOURNAL_RETENTION": "1d"}, {"JOURNAL_RETENTION": "9d", "REPORT_MINUTES_KEPT": "10d"}],
    ),
    (
        ReportsConf,
        "",
        [
            {},
            {"JOURNAL_RETENTION": "2d"},
            {"JOURNAL_RETENTION": "0", "REPORT_MINUTES_KEPT": "36500d"},
        ],
    ),
)


def test_what_contradicts_stops_the_start(subtests: pytest.Subtests) -> None:
    """S0.8, S1.19, S2.8, S4.16, I6."""
    for conf, message, cases in TOGETHER:
        for given in cases:
            with subtests.test(given=given):
                if not message:
                    conf.from_environment(given)
                    continue
                with pytest.raises(ImproperlyConfigured, match=message):
                    conf.from_environment(given)
