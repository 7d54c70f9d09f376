"""What a handler returns or raises means the same here and in a worker over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest

from apps.common import clock
from apps.jobs.handlers import Later
from apps.jobs.handlers.registry import Handler
from apps.jobs.models import Job
from apps.jobs.runner import attempt
from apps.jobs.runner.outbox import Outbox
from apps.journal.services import error_key
from taskplatform import sdk
from tests.integration.api.contract import ContractClient
from tests.jobs import job_type, jobs, last_entry, row, take
from tests.raised_errors import RAISED

pytestmark = pytest.mark.django_db


def does(ended: Any) -> Callable[[Any], Any]:
    """A handler that returns it, or raises it if that is an exception."""

    def work(_job: Any) -> Any:
        if isinstance(ended, BaseException):
            raise ended
        return ended

    return work


def ended_here(ended: Any, *, is_stopping: bool = False) -> int:
    """A job whose handler in-house returns or raises it."""
    jobs(1)
    [held] = take(1)
    box = Outbox({held.id: held})
    box.add(
        attempt.run(Handler("mail", does(ended), is_long=False), held, lambda: is_stopping), 0.0
    )
    box.flush()
    return held.id


def ended_elsewhere(api: ContractClient, ended: Any, *, is_stopping: bool = False) -> int:
    """A job whose handler in a worker over HTTP returns or raises it."""
    jobs(1)
    asked = {"worker": "pi-1", "types": ["mail"], "limit": 1}
    answer = api.post("/api/v1/jobs/hold/", asked).json()
    worker = sdk.Worker("http://127.0.0.1:1", "a.b", name="pi-1", threads=1)
    executor = worker._executor
    held = sdk.HeldJob(answer["jobs"][0], sdk._Answer(answer, 0.0, time.monotonic()), executor)
    executor.held[held.id] = held
    held.stopping = is_stopping
    executor._finish(held, ended)
    while executor.outbox:
        report = executor.outbox.popleft()
        body = json.loads(sdk._listing({"worker": "pi-1"}, "outcomes", [report.encoded]))
        said = api.post("/api/v1/jobs/settle/", body)
        if said.status_code == 200:
            results = said.json()["results"]
            worker._apply([report], sdk._Exchanged(results, [], worker._unknown, None))
        else:
            refusal = sdk.ApiError(said.status_code, "", str(said.json()["detail"]))
            worker._refused(refusal, [report], False)
    assert not executor.held
    return int(held.id)


class Point(NamedTuple):
    x: int
    y: int


# What handlers return, and what of it is kept; ValueError where the attempt fails for good.
RESULTS: list[tuple[Any, Any]] = [
    (None, None),
    ({"a": [1, 2.5, None, True, "é"]}, {"a": [1, 2.5, None, True, "é"]}),
    ((1, "b"), [1, "b"]),
    ({"a": ((1, 2), [()])}, {"a": [[1, 2], [[]]]}),
    (Point(1, 2), [1, 2]),
    ({1: "a"}, ValueError),
    ([{"a": {None: 1}}], ValueError),
    ({1, 2}, ValueError),
    (object(), ValueError),
    (float("nan"), ValueError),
    (2**70, ValueError),
    ({"v": "\udcff"}, ValueError),
    ("a\0", ValueError),
    ("x" * 300_000, ValueError),
]


def test_results_are_kept_or_refused_alike_on_both_sides(
    api: ContractClient, subtests: pytest.Subtests
) -> None:
    job_type(max_attempts=3)
    for result, kept in RESULTS:
        with subtests.test(result=repr(result)[:60]):
            here, elsewhere = row(ended_here(result)), row(ended_elsewhere(api, result))
            expected = ("failed", None) if kept is ValueError else ("succeeded", kept)
            assert (here.status, here.result) == expected
            assert (elsewhere.status, elsewhere.result) == expected


def test_later_puts_a_job_off_alike_on_both_sides(
    api: ContractClient, subtests: pytest.Subtests
) -> None:
    """It uses up no attempt; a worker that stops gives the job back."""
    job_type(max_attempts=1)
    hour, none = timedelta(hours=1), timedelta(0)
    for when, is_stopping, expected in (
        (hour, False, ("scheduled", 0, "yielded")),
        (hour, True, ("scheduled", 0, "yielded")),
        (clock.now() + hour, False, ("scheduled", 0, "yielded")),
        (none, True, ("ready", 0, "released")),
        (none, False, ("ready", 0, "yielded")),
    ):
        with subtests.test(when=when, is_stopping=is_stopping):
            here = ended_here(Later(when), is_stopping=is_stopping)
            elsewhere = ended_elsewhere(api, sdk.Later(when), is_stopping=is_stopping)
            for number in (here, elsewhere):
                job = row(number)
                assert (job.status, job.attempts, job.last_end) == expected
                if when != none:
                    assert job.run_at == clock.now() + hour
                Job.objects.filter(pk=number).delete()
    with pytest.raises(ValueError, match="needs a time zone"):
        Later(datetime(2026, 3, 2, 9))


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
