"""Workers on other machines whose clocks are a day off. I33, F16."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from taskplatform import sdk
from tests.processes import RunningProcess, eventually
from tests.workers import Workers, make_type

DAY = 86_400
# Its time and dates are off before the client is imported.
WORKER = """
import datetime, threading, time
off, time_of, date_of = float(sys.argv[1]), time.time, datetime.datetime
class Off(date_of):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(seconds=off)
datetime.datetime = Off
time.time = lambda: time_of() + off
time.time_ns = lambda: int(time.time() * 1e9)
from sdk import Later, Worker
worker = Worker(os.environ["URL"], os.environ["KEY"], "off", threads=4)

@worker.handler("quick")
def quick(job):
    return {"n": job.context["n"]}

@worker.handler("long")
def long(job):
    threading.Event().wait(4)
    return {"attempt": job.attempt}

@worker.handler("later")
def later(job):
    if job.saved is None:
        job.checkpoint("seen")
        raise Later(datetime.timedelta(seconds=0.5))
    return {"attempt": job.attempt}

@worker.handler("dated")
def dated(job):
    raise Later(Off.fromisoformat(job.context["at"]))

@worker.handler("own-date")
def own_date(job):
    raise Later(Off.now(datetime.timezone.utc) + datetime.timedelta(hours=1))

worker.run()
"""


@pytest.mark.long
@pytest.mark.parametrize("off", [DAY, -DAY])
def test_clock_of_a_worker_does_not_matter(
    off: int,
    client: sdk.Client,
    workers: Workers,
    outside: Callable[..., RunningProcess],
) -> None:
    """It holds, renews, puts off and reports; only a date that it reads from its own clock is as
    wrong as that."""
    workers.sweeps()
    for name in ("quick", "long", "later", "dated", "own-date"):
        make_type(client, name, lease_seconds=1 if name == "long" else 30)
    at = (datetime.now(UTC) + timedelta(hours=3)).replace(microsecond=0)
    done = [client.submit("quick", {"n": n}).id for n in range(20)]
    done += [client.submit("long").id, client.submit("later").id]
    dated = client.submit("dated", {"at": at.isoformat()}).id
    own_date = client.submit("own-date").id
    outside(WORKER, str(off))

    def ended() -> list[sdk.Job]:
        jobs = [client.job(number) for number in done]
        return jobs if all(job.is_final for job in jobs) else []

    jobs = eventually(ended)
    assert [(job.status, job.attempts) for job in jobs] == [("succeeded", 1)] * len(jobs)
    assert [job.result for job in jobs[-2:]] == [{"attempt": 1}] * 2
    assert [job.result for job in jobs[:-2]] == [{"n": n} for n in range(20)]
    put_off = eventually(lambda: (job := client.job(dated)).status == "scheduled" and job)
    assert (put_off.run_at, put_off.attempts) == (at, 0)
    wrong = eventually(lambda: (job := client.job(own_date)).status == "scheduled" and job)
    if off > 0:
        assert wrong.attempts == 0
        assert abs(wrong.run_at - datetime.now(UTC) - timedelta(hours=25)) < timedelta(minutes=5)
    else:
        # What is over already puts nothing off: a failure, so that it does not come back for ever.
        assert wrong.attempts == 1
