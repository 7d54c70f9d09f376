"""One exception is one group of errors, whether a handler here or a worker elsewhere raises it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from apps.jobs.handlers.registry import Handler
from apps.jobs.runner import attempt
from apps.jobs.services.settle import settle
from apps.journal.services import error_key
from taskplatform import sdk
from tests.integration.api.contract import ContractClient
from tests.jobs import job_type, jobs, last_entry, row, take
from tests.raised_errors import RAISED

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def ended_here(error: BaseException) -> int:
    """A job whose handler in-house raises it."""

    def work(_context: Any) -> NoReturn:
        raise error

    jobs(1)
    [held] = take(1)
    settle(outcomes=[attempt.run(Handler("mail", work, is_long=False), held, lambda: False)])
    return held.id


def ended_elsewhere(api: ContractClient, error: BaseException) -> int:
    """A job whose handler in a worker over HTTP raises it."""
    jobs(1)
    asked = {"worker": "pi-1", "types": ["mail"], "limit": 1}
    [held] = api.post("/api/v1/jobs/hold/", asked).json()["jobs"]
    outcome = sdk.HeldJob._outcome(SimpleNamespace(stopping=False), error)  # type: ignore[arg-type]
    report = {"id": held["id"], "lease_token": held["lease_token"], **outcome}
    answer = api.post("/api/v1/jobs/settle/", {"worker": "pi-1", "outcomes": [report]})
    assert answer.json()["results"][0]["ok"], answer.content
    return int(held["id"])


def seen(number: int) -> tuple[str, str, str, str]:
    """How the row and its journal name the error, and the key of the group in each."""
    job, entry = row(number), last_entry(number)
    return job.memo, entry.error_line, job.error_key, entry.error_key


def test_class_and_first_line_name_the_error_on_both_sides(
    api: ContractClient, subtests: pytest.Subtests
) -> None:
    job_type(max_attempts=1)
    groups: dict[str, set[str]] = {}
    for error, line in RAISED:
        with subtests.test(line=line[:80]):
            here, elsewhere = seen(ended_here(error)), seen(ended_elsewhere(api, error))
            assert here == elsewhere
            memo, named, key, in_journal = here
            assert (memo, named, key) == (line, line.strip(), in_journal)
            groups.setdefault(key, set()).add(line)
    # None of them is in the group of another.
    assert all(len(lines) == 1 for lines in groups.values())


def test_line_that_the_text_does_not_show_is_kept_beside_it() -> None:
    """As of words that are the traceback of another program; others need no room for it."""
    job_type(max_attempts=1)
    shown, hidden = ended_here(ValueError("no shop")), ended_here(RAISED[-1][0])
    assert "summary" not in last_entry(shown).data
    assert last_entry(hidden).data["summary"] == RAISED[-1][1]


def test_worker_in_any_language_may_say_it(api: ContractClient) -> None:
    job_type(max_attempts=1)
    jobs(2)
    asked = {"worker": "pi-1", "types": ["mail"]}
    reports = [
        {
            **{"id": held["id"], "lease_token": held["lease_token"], "outcome": "failed"},
            **{"error": f"log of {n}:\nE4 {n}", "summary": "E4: disk full"},
        }
        for n, held in enumerate(api.post("/api/v1/jobs/hold/", asked).json()["jobs"])
    ]
    api.post("/api/v1/jobs/settle/", {"worker": "pi-1", "outcomes": reports})
    [one, other] = [seen(int(each["id"])) for each in reports]
    assert one == other
    assert one[:3] == ("E4: disk full", "E4: disk full", error_key("E4: disk full"))
