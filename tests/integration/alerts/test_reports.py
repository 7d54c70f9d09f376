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

from apps.alerts.handlers import deliver
from apps.alerts.models import Delivery, ReportPlan, ReportRun
from apps.alerts.services import report_plans, report_runs
from apps.alerts.services.invariants import CHECKS
from apps.common import clock
from apps.common.errors import Conflict
from apps.jobs.handlers import Fail
from apps.jobs.models import Job, JobScope
from apps.reports.services import rollup
from tests.alerts import Attempt, Mailbox, Receiver, channel, report_plan
from tests.frozen import FrozenClock
from tests.jobs import end, job_type, jobs, take

pytestmark = pytest.mark.django_db
ANN = "admin:ann"


def at(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 3, day, hour, minute, tzinfo=UTC)


def sweep() -> int:
    return report_runs.send_due(until=clock.now() + timedelta(minutes=1))


def ended(type_: str, succeeded: int, failed: int = 0) -> None:
    job_type(type_, max_attempts=1)
    jobs(succeeded + failed, type_)
    for position, held in enumerate(take(limit=succeeded + failed, types=(type_,))):
        end(held, "succeeded" if position < succeeded else "failed")


def carry_out() -> Any:
    """Run the handler on the only delivery, as a worker does."""
    return deliver({"delivery": Delivery.objects.get().pk}, Attempt())


@pytest.fixture
def day(frozen_clock: FrozenClock) -> FrozenClock:
    """Tuesday 08:00:05 UTC. On Monday at 09:00 jobs of two types ended."""
    ended("mail", 9, 3)
    ended("photo", 4)
    frozen_clock.advance(minutes=2)
    rollup.roll_up(until=clock.now() + timedelta(minutes=1))
    return frozen_clock


def due(day: FrozenClock, owner: User, **values: Any) -> ReportPlan:
    """A plan that is due now, with one channel unless others are named."""
    if "channels" not in values:
        values["channels"] = [channel()]
    made = report_plan(owner, **values)
    day.move_to(at(3, 8) + timedelta(seconds=5))
    return made


# --- when -----------------------------------------------------------------------------------------
def test_each_time_is_sent_once_to_each_channel(frozen_clock: FrozenClock, owner: User) -> None:
    made = report_plan(owner, channels=[channel("a"), channel("b"), channel("c", enabled=False)])
    assert made.next_at == at(3, 8)
    assert sweep() == 0
    frozen_clock.move_to(at(3, 8))

    assert [sweep(), sweep()] == [2, 0]

    run = ReportRun.objects.get()
    assert (run.at, run.occurrence, run.why) == (at(3, 8), int(at(3, 8).timestamp()), "")
    assert {each.channel.name for each in run.deliveries.all()} == {"a", "b"}
    assert Job.objects.filter(type="deliver").count() == 2
    made.refresh_from_db()
    assert made.next_at == at(4, 8)


@pytest.mark.both
def test_of_missed_times_the_newest_is_sent(frozen_clock: FrozenClock, owner: User) -> None:
    report_plan(owner, channels=[channel()])
    frozen_clock.move_to(at(6, 12))

    assert sweep() == 1

    assert ReportRun.objects.get().at == at(6, 8)
    assert ReportPlan.objects.get().next_at == at(7, 8)


@pytest.mark.both
@pytest.mark.django_db(transaction=True)
def test_racing_rounds_send_once(racers: Any, frozen_clock: FrozenClock, owner: User) -> None:
    """I67."""
    report_plan(owner, channels=[channel("a"), channel("b")])
    frozen_clock.move_to(at(3, 8))

    race = racers([sweep] * 4)

    assert sorted(race.results) == [0, 0, 0, 2]
    assert (ReportRun.objects.count(), Delivery.objects.count()) == (1, 2)
    assert [breach for check in CHECKS for breach in check.run(100).breaches] == []


@pytest.mark.both
def test_no_edit_sends_anything_of_the_past(frozen_clock: FrozenClock, owner: User) -> None:
    made = report_plan(owner, channels=[channel()])
    for hours, changes in (
        (48, {"rule": {"every_minutes": 60}}),
        (5, {"enabled": False}),
        (72, {"enabled": True}),
    ):
        frozen_clock.advance(hours=hours)
        made = report_plans.update_plan(
            plan=made, changes=changes, version=made.version, owner=owner, actor=ANN
        )
        assert sweep() == 0
    assert made.next_at == clock.now() + timedelta(hours=1)


def test_rule_that_cannot_be_read_stops_no_other(day: FrozenClock, owner: User) -> None:
    broken = report_plan(owner, channels=[channel("a")])
    ReportPlan.objects.update(rule={"every_days": 0})
    due(day, owner, channels=[channel("b")])

    assert sweep() == 1

    assert Delivery.objects.get().channel.name == "b"
    broken.refresh_from_db()
    assert broken.next_at is None


@pytest.mark.both
def test_send_now_goes_beside_the_rule(frozen_clock: FrozenClock, owner: User) -> None:
    made = report_plan(owner, channels=[channel()], enabled=False)
    for _each in range(2):
        run = report_runs.send_now(plan=made, actor=ANN)
        frozen_clock.advance(seconds=1)
    assert (run.by_hand, ReportRun.objects.count(), Delivery.objects.count()) == (True, 2, 2)


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
        (deleted, report_runs.DELETED),
        (disabled, report_runs.DISABLED),
        (without_the_right, report_runs.FORBIDDEN),
    ],
)


@LOST
def test_report_of_who_lost_the_right_is_not_sent_and_says_why(
    day: FrozenClock, owner: User, lose: Callable[[User], None], why: str
) -> None:
    made = due(day, owner)
    lose(owner)

    assert sweep() == 0

    assert ReportRun.objects.get().why == why
    made.refresh_from_db()
    assert made.next_at == at(4, 8)
    with pytest.raises(Conflict, match=str(why)[:20]):
        report_runs.send_now(plan=made, actor=ANN)


@LOST
def test_right_that_is_lost_on_the_way_stops_the_message(
    day: FrozenClock, owner: User, site: Receiver, lose: Callable[[User], None], why: str
) -> None:
    due(day, owner, channels=[channel(url=site.url)])
    assert sweep() == 1
    lose(owner)

    with pytest.raises(Fail, match=str(why)[:20]):
        carry_out()

    assert (site.taken, Delivery.objects.get().state) == ([], "failed")


def test_limited_owner_sends_own_figures_alone(
    day: FrozenClock, owner: User, site: Receiver
) -> None:
    due(day, owner, channels=[channel(url=site.url)])
    sweep()
    JobScope.objects.create(operator=owner, type="photo")

    carry_out()

    body = json.loads(site.taken[0].body)
    assert [row["group"] for row in body["rows"]] == ["photo"]
    assert body["total"]["total"] == 4
    assert "mail" not in site.taken[0].body.decode()


# --- what is in them ------------------------------------------------------------------------------
def test_webhook_gets_the_rows_as_json(day: FrozenClock, owner: User, site: Receiver) -> None:
    made = due(day, owner, channels=[channel(url=site.url, secret="s3cret")])
    sweep()

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
    sweep()

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
    sweep()

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
    sweep()

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
    sweep()

    carry_out()

    body = json.loads(site.taken[0].body)
    assert [row["group"] for row in body["rows"]] == ["2026-03-02T17:00+08:00"]


# --- the audit ------------------------------------------------------------------------------------
def test_audit_names_a_plan_that_is_off_and_due(frozen_clock: Any, owner: User) -> None:
    """I67."""
    made = report_plan(owner, channels=[channel()])
    ReportPlan.objects.update(enabled=False)
    [breach] = CHECKS[1].run(100).breaches
    assert (breach.subject, breach.text) == (f"report plan {made.pk}", "is off, but would be sent")


def test_audit_names_a_run_that_was_sent_all_the_same(day: FrozenClock, owner: User) -> None:
    """I67."""
    due(day, owner)
    sweep()
    ReportRun.objects.update(why="no")
    [breach] = CHECKS[1].run(100).breaches
    assert breach.text == "was not sent, but has 1 deliveries"
