"""Reports that are sent regularly: when, to whom, with whose rights, and what is in them. I67."""

from __future__ import annotations

import csv
import email
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.message import Message
from typing import Any

import pytest
from django.contrib.auth.models import User

from apps.alerts import sweeps
from apps.alerts.handlers import send_report
from apps.alerts.models import Channel, Delivery, ReportPlan
from apps.alerts.services import report_plans, report_runs
from apps.alerts.services.invariants import CHECKS
from apps.alerts.services.retention import forget_deliveries
from apps.common import clock
from apps.common.errors import Conflict
from apps.jobs.handlers import Fail, Retry
from apps.jobs.models import Job, JobScope
from apps.reports.services import rollup
from apps.schedules.models import ScheduleRun
from apps.schedules.services import schedules
from tests.alerts import Attempt, Mailbox, Receiver, channel, report_plan
from tests.frozen import FrozenClock
from tests.integration.schedules.conftest import sweep
from tests.jobs import end, job_type, jobs, take

pytestmark = pytest.mark.django_db
ANN = "admin:ann"


def at(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 3, day, hour, minute, tzinfo=UTC)


def ended(type_: str, succeeded: int, failed: int = 0) -> None:
    job_type(type_, max_attempts=1)
    jobs(succeeded + failed, type_)
    for position, held in enumerate(take(limit=succeeded + failed, types=(type_,))):
        end(held, "succeeded" if position < succeeded else "failed")


def carry_out(attempt: int = 1) -> Any:
    """Run the handler of the newest run, as a worker does."""
    job = ScheduleRun.objects.latest("pk").job
    assert job is not None
    return send_report({}, Attempt(attempt, job))


def sent() -> dict[str, str]:
    """The state of each delivery by its channel."""
    return dict(Delivery.objects.values_list("channel__name", "state"))


@pytest.fixture
def day(frozen_clock: FrozenClock) -> FrozenClock:
    """Tuesday 08:00:05 UTC. On Monday at 09:00 jobs of two types ended."""
    ended("mail", 9, 3)
    ended("photo", 4)
    frozen_clock.advance(minutes=2)
    rollup.roll_up(until=clock.now() + timedelta(minutes=1))
    return frozen_clock


def due(day: FrozenClock, owner: User, **values: Any) -> ReportPlan:
    """A plan that is due now and whose run is made, with one channel unless others are named."""
    if "channels" not in values:
        values["channels"] = [channel()]
    made = report_plan(owner, **values)
    day.move_to(at(3, 8) + timedelta(seconds=5))
    sweep()
    return made


def two(site: Receiver) -> list[Channel]:
    return [channel(name, url=site.url) for name in "ab"]


# --- when -----------------------------------------------------------------------------------------
def test_each_time_is_sent_once_to_each_channel(
    frozen_clock: FrozenClock, owner: User, site: Receiver
) -> None:
    disabled = channel("c", url=site.url, enabled=False)
    made = report_plan(owner, channels=[*two(site), disabled])
    assert made.next_at == at(3, 8)
    assert sweep() == 0
    frozen_clock.move_to(at(3, 8))

    assert [sweep(), sweep()] == [1, 0]

    run = ScheduleRun.objects.get()
    assert (run.schedule_id, run.at, run.occurrence) == (made.pk, at(3, 8), at(3, 8).timestamp())
    assert Job.objects.get(pk=run.job).type == "send_report"
    # A worker that dies before it says so is followed by another one.
    assert [carry_out(), carry_out(2)] == [{"sent": 2}] * 2
    assert (sent(), len(site.taken)) == ({"a": "sent", "b": "sent"}, 2)
    made.refresh_from_db()
    assert made.next_at == at(4, 8)


@pytest.mark.both
@pytest.mark.django_db(transaction=True)
def test_racing_workers_send_once(
    racers: Any, frozen_clock: FrozenClock, owner: User, site: Receiver
) -> None:
    """I67."""
    due(frozen_clock, owner, channels=two(site))

    def attempt() -> str:
        try:
            carry_out()
        except Retry:
            return "later"
        return "done"

    assert "done" in racers([attempt] * 4).results
    assert (Delivery.objects.count(), len(site.taken)) == (2, 2)
    assert [breach for check in CHECKS for breach in check.run(100).breaches] == []


def test_channel_that_fails_is_tried_again_alone(
    frozen_clock: FrozenClock, owner: User, site: Receiver
) -> None:
    site.answers = [(200, b"ok"), (503, b"down"), (503, b"down"), (200, b"ok")]
    due(frozen_clock, owner, channels=two(site))

    with pytest.raises(Retry) as first:
        carry_out()
    assert sent() == {"a": "sent", "b": "waiting"}
    # Not before its time, if something else wakes the job.
    with pytest.raises(Retry):
        carry_out(2)
    assert len(site.taken) == 2
    frozen_clock.advance(seconds=first.value.after.total_seconds())  # type: ignore[union-attr]
    with pytest.raises(Fail, match="down"):
        carry_out(8)
    assert (sent(), len(site.taken)) == ({"a": "sent", "b": "failed"}, 3)

    # A retry by a person begins with the first attempt again.
    assert carry_out() == {"sent": 2}
    assert (sent(), len(site.taken)) == ({"a": "sent", "b": "sent"}, 4)


def test_channel_that_refuses_is_not_tried_again_and_ends_the_run_as_failed(
    frozen_clock: FrozenClock, owner: User, site: Receiver
) -> None:
    site.answers = [(404, b"gone"), (503, b"down"), (200, b"ok")]
    due(frozen_clock, owner, channels=two(site))
    with pytest.raises(Retry):
        carry_out()
    frozen_clock.advance(hours=1)

    with pytest.raises(Fail, match="gone"):
        carry_out(2)

    assert (sent(), len(site.taken)) == ({"a": "failed", "b": "sent"}, 3)


def test_retry_of_what_is_forgotten_sends_nothing(
    frozen_clock: FrozenClock, owner: User, site: Receiver
) -> None:
    """I67: the deliveries, which say who has it, were removed."""
    site.answers = [(404, b"gone")]
    due(frozen_clock, owner, channels=[channel(url=site.url)])
    with pytest.raises(Fail, match="gone"):
        carry_out()
    frozen_clock.advance(days=91)
    forget_deliveries(clock.now())

    with pytest.raises(Fail, match="not known any more"):
        carry_out()

    assert len(site.taken) == 1


def test_what_no_worker_begins_the_sweep_sends_once(
    frozen_clock: FrozenClock, owner: User, site: Receiver
) -> None:
    """I68."""
    due(frozen_clock, owner, channels=[channel(url=site.url)])
    assert sweeps.deliver() == 0
    frozen_clock.advance(seconds=60)
    assert sweeps.deliver() == 0
    frozen_clock.advance(seconds=60)

    assert [sweeps.deliver(), sweeps.deliver()] == [1, 0]

    assert (carry_out(), len(site.taken)) == ({"sent": 1}, 1)


@pytest.mark.both
def test_no_edit_sends_anything_of_the_past(frozen_clock: FrozenClock, owner: User) -> None:
    made = report_plan(owner, channels=[channel()])
    frozen_clock.advance(hours=48)
    made = report_plans.update_plan(
        plan=made,
        changes={"rule": {"every_minutes": 60}},
        version=made.version,
        owner=owner,
        actor=ANN,
    )
    assert (sweep(), made.next_at) == (0, clock.now() + timedelta(hours=1))
    frozen_clock.advance(minutes=30)
    schedules.pause(schedule=made, actor=ANN)
    frozen_clock.advance(hours=72)
    schedules.resume(schedule=made, actor=ANN)
    assert sweep() == 0
    made.refresh_from_db()
    assert made.next_at == clock.now() + timedelta(minutes=30)


@pytest.mark.both
def test_send_now_goes_beside_the_rule(
    frozen_clock: FrozenClock, owner: User, site: Receiver
) -> None:
    made = report_plan(owner, channels=[channel(url=site.url)])
    schedules.pause(schedule=made, actor=ANN)
    for _each in range(2):
        run = report_runs.send_now(plan=made, actor=ANN)
        carry_out()
        frozen_clock.advance(seconds=1)
    assert (run.by_hand, len(site.taken)) == (True, 2)


# --- with whose rights ----------------------------------------------------------------------------
def deleted(owner: User) -> None:
    owner.delete()


def disabled(owner: User) -> None:
    User.objects.filter(pk=owner.pk).update(is_active=False)


def without_the_right(owner: User) -> None:
    owner.groups.clear()


LOST = pytest.mark.parametrize(
    ("lose", "why"),
    [
        (deleted, report_plans.DELETED),
        (disabled, report_plans.DISABLED),
        (without_the_right, report_plans.FORBIDDEN),
    ],
)


@LOST
def test_report_of_who_lost_the_right_is_not_sent_and_says_why(
    day: FrozenClock, owner: User, lose: Callable[[User], None], why: str
) -> None:
    made = report_plan(owner, channels=[channel()])
    lose(owner)
    day.move_to(at(3, 8))
    sweep()

    with pytest.raises(Fail, match=str(why)[:20]):
        carry_out()

    assert not Delivery.objects.exists()
    made.refresh_from_db()
    assert made.next_at == at(4, 8)
    with pytest.raises(Conflict, match=str(why)[:20]):
        report_runs.send_now(plan=made, actor=ANN)


@LOST
def test_right_that_is_lost_on_the_way_stops_the_message(
    day: FrozenClock, owner: User, site: Receiver, lose: Callable[[User], None], why: str
) -> None:
    site.answers = [(503, b"down")]
    due(day, owner, channels=[channel(url=site.url)])
    with pytest.raises(Retry):
        carry_out()
    lose(owner)
    day.advance(hours=1)

    with pytest.raises(Fail, match=str(why)[:20]):
        carry_out(2)

    assert (len(site.taken), sent()) == (1, {"ops": "failed"})


def test_plan_without_a_channel_or_deleted_meanwhile_sends_nothing(
    day: FrozenClock, owner: User, subtests: pytest.Subtests
) -> None:
    gone, none = "does not exist any more", "None of its channels is enabled"
    losses: list[tuple[Callable[[ReportPlan], object], str]] = [
        (lambda _plan: Channel.objects.update(enabled=False), none),
        (lambda _plan: Channel.objects.all().delete(), none),
        (lambda plan: schedules.delete_schedule(schedule=plan, actor=ANN), gone),
    ]
    for number, (lose, why) in enumerate(losses):
        made = report_plan(owner, channels=[channel(str(number))])
        report_runs.send_now(plan=made, actor=ANN)
        lose(made)
        with subtests.test(why=why), pytest.raises(Fail, match=why):
            carry_out()
    assert not Delivery.objects.exists()


def test_limited_owner_sends_own_figures_alone(
    day: FrozenClock, owner: User, site: Receiver
) -> None:
    due(day, owner, channels=[channel(url=site.url)])
    JobScope.objects.create(operator=owner, type="photo")

    carry_out()

    body = json.loads(site.taken[0].body)
    assert [row["group"] for row in body["rows"]] == ["photo"]
    assert body["total"]["total"] == 4
    assert "mail" not in site.taken[0].body.decode()


# --- what is in them ------------------------------------------------------------------------------
def test_webhook_gets_the_rows_as_json(day: FrozenClock, owner: User, site: Receiver) -> None:
    made = due(day, owner, channels=[channel(url=site.url, secret="s3cret")])

    carry_out()

    [taken] = site.taken
    assert taken.headers["x-taskplatform-signature"].startswith("v1=")
    body = json.loads(taken.body)
    assert body["event"] == "report"
    assert body["plan"] == {"id": made.pk, "title": "Every morning"}
    # The time of the report, however much later it is sent.
    assert (body["at"], body["to"]) == ("2026-03-03T08:00:00Z", "2026-03-03T08:00:00Z")
    assert [(row["group"], row["total"], row["failed"]) for row in body["rows"]] == [
        ("mail", 12, 3),
        ("photo", 4, 0),
    ]
    assert (body["total"]["total"], body["more"]) == (16, 0)
    assert f"Jobs ended {body['total']['jobs_ended']}" in body["text"]
    assert sum(row["jobs_ended"] for row in body["rows"]) == body["total"]["jobs_ended"] > 0
    assert "from=2026-03-02T08%3A00Z&to=2026-03-03T08%3A00Z" in body["url"]
    kept = Delivery.objects.get()
    assert (kept.state, kept.message["text"]) == ("sent", body["text"])


@pytest.mark.parametrize("kind", ["dingtalk", "wecom", "feishu", "slack"])
def test_bot_gets_five_lines_and_a_link(
    day: FrozenClock, owner: User, site: Receiver, kind: str
) -> None:
    site.answers = [(200, b"ok" if kind == "slack" else b'{"errcode":0,"code":0}')]
    due(day, owner, channels=[channel(kind=kind, url=f"{site.url}/x?k=1")])

    carry_out()

    lines = Delivery.objects.get().message["text"].split("\n")
    assert lines[0] == "Jobs · 2026-03-02 08:00 – 2026-03-03 08:00 · UTC"
    assert lines[1:3] == ["Jobs ended 16 · Tries ended 16", "Success rate 81.2 % · Failed 3"]
    assert len(lines) == 5
    sent = site.taken[0].body.decode()
    assert "Success rate 81.2 %" in sent
    assert "/admin/reports/?source=job" in sent


def parts_of(mail: str) -> dict[str, Message]:
    found = email.message_from_bytes(mail.encode())
    return {part.get_content_type(): part for part in found.walk()}


def text_in(part: Message) -> str:
    return part.get_payload(decode=True).decode("utf-8-sig")  # type: ignore[union-attr]


def test_mail_has_a_table_and_a_file(day: FrozenClock, owner: User, post: Mailbox) -> None:
    ended("films", 1)
    day.advance(minutes=2)
    rollup.roll_up(until=clock.now() + timedelta(minutes=1))
    mail = channel(kind="mail", url="", recipients=["a@example.org"])
    due(day, owner, title="Jobs <daily>", channels=[mail])

    carry_out()

    parts = parts_of(post.mails[0])
    lines = text_in(parts["text/plain"]).splitlines()
    head = next(line for line in lines if line.startswith("By type"))
    assert head.split()[:4] == ["By", "type", "Tries", "ended"]
    row = next(line for line in lines if line.startswith("mail"))
    assert row.split()[:2] == ["mail", "12"]
    assert row.index("12") + 2 == head.index("Tries ended") + len("Tries ended")
    html = text_in(parts["text/html"])
    assert "<td" in html and ">photo<" in html and "<daily>" not in html
    file = parts["text/csv"]
    assert file.get_filename() == "report-job-type-20260302T0800Z.csv"
    table = list(csv.reader(io.StringIO(text_in(file))))
    assert [line[0] for line in table] == ["type", "mail", "photo", "films", "total"]


@pytest.mark.both
def test_mail_about_nothing_says_so(frozen_clock: FrozenClock, owner: User, post: Mailbox) -> None:
    mail = channel(kind="mail", url="", recipients=["a@example.org"], language="zh-hans")
    due(frozen_clock, owner, channels=[mail])

    carry_out()

    parts = parts_of(post.mails[0])
    assert "该时段内没有结束的工作。" in text_in(parts["text/plain"])
    assert "<table" not in text_in(parts["text/html"])


@pytest.mark.both
def test_by_hour_only_hours_with_ends_are_listed(
    day: FrozenClock, owner: User, site: Receiver
) -> None:
    due(
        day,
        owner,
        query="?source=job&by=hour&period=24h&zone=Asia/Shanghai",
        channels=[channel(url=site.url)],
    )

    carry_out()

    body = json.loads(site.taken[0].body)
    assert [row["group"] for row in body["rows"]] == ["2026-03-02T17:00+08:00"]


# --- the audit ------------------------------------------------------------------------------------
def test_audit_names_a_message_without_a_run(day: FrozenClock, owner: User, site: Receiver) -> None:
    """I67."""
    due(day, owner, channels=[channel(url=site.url)])
    carry_out()
    assert CHECKS[1].run(100).breaches == []
    Delivery.objects.update(job=None)
    [breach] = CHECKS[1].run(100).breaches
    assert "belongs to no run" in breach.text
