"""What the pages of jobs are looked at with: some types, some workers, and jobs in every state."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from apps.common import clock
from apps.jobs.models import Job, JobType, TypeState, Worker
from apps.jobs.rules import transitions as t
from apps.jobs.services import rescue
from tests.frozen import FrozenClock
from tests.jobs import THERE, end, job_type, jobs, row, take

TRACEBACK = """Traceback (most recent call last):
  File "/srv/shop/handlers.py", line 41, in send
    server.sendmail(sender, [to], text)
  File "/usr/lib/python3.11/smtplib.py", line 887, in sendmail
    raise SMTPRecipientsRefused(senderrs)
smtplib.SMTPRecipientsRefused: {'ann@example.com': (450, b'4.2.1 mailbox busy')}
"""
MAIL = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "title": "Recipient", "description": "One address."},
        "template": {"enum": ["welcome", "invoice", "reminder"], "title": "Template"},
        "attempts_left": {"type": "integer", "minimum": 0, "title": "Reminders left"},
        "api_key": {"type": "string", "title": "API key"},
    },
    "required": ["to"],
    "additionalProperties": False,
}


MONTHLY = "report.monthly.of-each-country"


@dataclass(frozen=True)
class Yard:
    """Jobs by what they are, and the type and worker that a test looks up."""

    scheduled: Job
    ready: Job
    running: Job
    failed: Job
    succeeded: Job
    cancelled: Job
    type: JobType
    worker: Worker


def fill_yard(frozen: FrozenClock, *, many: int = 60) -> Yard:
    """Types of all kinds, of which one is paused, one has an open breaker and one no worker."""
    mail = job_type(
        "mail", title="Mails to customers", params_schema=MAIL, max_attempts=4, max_running=40
    )
    job_type(MONTHLY, lane="slow", max_attempts=2, max_processing_seconds=7200)
    job_type(
        "webhook",
        breaker_enabled=True,
        rate_per_minute=600,
        retry_multiplier=3.0,
        max_attempts=8,
        retry_jitter=0.2,
    )
    job_type("thumbnail", origin="prefer", allowed_hosts=["host-a", "host-b"], weight=5)
    job_type(
        "crm.sync",
        paused=True,
        pause_reason="The CRM is down until noon",
        paused_until=clock.now() + timedelta(hours=3),
    )
    job_type("legacy.export")
    failed = _failed(frozen)
    (cancelled,) = jobs(key="order-9")
    Job.objects.filter(pk=cancelled).update(status=t.CANCELLED, finished_at=clock.now())
    succeeded = _succeeded(frozen)
    running = _running(frozen)
    (ready,) = jobs(
        key="order-77", priority=5, user_id="uid_ann", context={"to": "ann@example.com"}
    )
    (scheduled,) = jobs(
        key="order-78",
        run_at=clock.now() + timedelta(hours=2),
        context={"to": "bob@example.com", "api_key": "hunter2"},
        priority=-3,
    )
    jobs(many, "thumbnail", key="image-17")
    jobs(many, "crm.sync", attempts=1, memo="ConnectionRefusedError: [Errno 111]")
    jobs(many, "legacy.export", run_at=clock.now() + timedelta(minutes=7))
    jobs(many, "webhook", run_at=clock.now() - timedelta(minutes=12, seconds=34))
    _open_breaker()
    worker = _workers()
    return Yard(
        scheduled=row(scheduled),
        ready=row(ready),
        running=row(running),
        failed=row(failed),
        succeeded=row(succeeded),
        cancelled=row(cancelled),
        type=mail,
        worker=worker,
    )


def _open_breaker() -> None:
    TypeState.objects.update_or_create(
        type="webhook",
        defaults={"breaker": "open", "breaker_since": clock.now() - timedelta(seconds=10)},
    )


def _workers() -> Worker:
    now = clock.now()

    def worker(name: str, seconds_ago: int = 0, **columns: Any) -> Worker:
        columns = {
            "host": name.partition(":")[0],
            "pid": 4711,
            "lanes": ["fast"],
            "types": ["mail", "thumbnail", "webhook", "crm.sync"],
            "capacity": 4,
            "version": "0.9.2",
            **columns,
        }
        return Worker.objects.create(
            name=name,
            started_at=now - timedelta(hours=5),
            last_heartbeat_at=now - timedelta(seconds=seconds_ago),
            **columns,
        )

    worker("host-b:22", 4, lanes=["slow"], types=[MONTHLY], capacity=2)
    worker("host-c:9", 300, state=Worker.State.DRAINING)
    worker("host-d:31", 90)
    worker("host-e:1", 86_400, state=Worker.State.GONE)
    return worker("host-a:1", 1, running=17, drains={"fast": 2})


def _failed(frozen: FrozenClock) -> int:
    """Four attempts: two errors, one host that died, one error more; then a late report."""
    (number,) = jobs(key="order-17", user_id="uid_ann", context={"to": "ann@example.com"})
    held = take(1)[0]
    frozen.advance(seconds=2)
    end(held, "failed", error=TRACEBACK, memo="4.2.1 mailbox busy")
    frozen.advance(seconds=12)
    held = take(1, by=THERE)[0]
    frozen.advance(minutes=2)
    rescue.rescue_due(until=clock.now() + timedelta(seconds=1))
    end(held, "succeeded", memo="sent after all")
    frozen.advance(seconds=1)
    for wait in (45, 90):
        held = take(1)[0]
        frozen.advance(seconds=3)
        end(held, "failed", error=TRACEBACK)
        frozen.advance(seconds=wait)
    assert row(number).status == t.FAILED, row(number).status
    return number


def _succeeded(frozen: FrozenClock) -> int:
    (number,) = jobs(key="order-21", context={"to": "eve@example.com"})
    held = take(1)[0]
    frozen.advance(seconds=1, milliseconds=240)
    end(held, "succeeded", result={"message_id": "5d1f", "token": "hunter3"}, memo="sent")
    return number


def _running(frozen: FrozenClock) -> int:
    """As wide as a row of the list gets: long names, and times in two units."""
    key = "2026-02-of-all-shops"
    (number,) = jobs(1, MONTHLY, key=key, context={"month": "2026-02"})
    take(1, types=(MONTHLY,))
    frozen.advance(seconds=20)
    now = clock.now()
    Job.objects.filter(pk=number).update(
        created_at=now - timedelta(days=12, hours=13),
        started_at=now - timedelta(minutes=52, seconds=39),
        progress=42,
        checkpoint={"shop": 117, "of": 280},
        sequence=9,
    )
    return number
