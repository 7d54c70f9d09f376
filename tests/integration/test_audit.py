"""`manage.py audit`: each invariant is broken once by hand, and the audit reports it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from apps.common import audit as auditing
from apps.common import clock, ids
from apps.dispatch.models import Dispatch, OnceTask, RotateTask, Stock
from apps.jobs.models import Job
from apps.jobs.rules.outcome import Outcome
from apps.jobs.services import control
from apps.jobs.services.hold import Holder, hold
from apps.jobs.services.settle import settle
from apps.jobs.services.submit import submit
from apps.journal.models import JournalEntry
from tests import callback, factories
from tests.auditing import audit, breaches
from tests.callback import take_next
from tests.emptying import undone

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auditing, "AGAIN_AFTER_SECONDS", 0.0)


@pytest.fixture
def work() -> None:
    """A little of everything: dispatches under way and ended each way, and jobs in each state."""
    people = [factories.user(f"uid_{n}") for n in range(4)]
    everybody = factories.group("gid_all", [person.name for person in people])
    factories.once_task(everybody, mode="multi", dispatch_times=None)
    factories.rotation(people[0], priority=50, start_at=clock.now() - timedelta(minutes=5))
    for person, end in zip(people[:3], ("succeeded", "failed", "released"), strict=True):
        taken: Any = take_next(person)
        if end == "released":
            callback.release(executor=person, number=taken.pk)
        else:
            callback.call_back(executor=person, number=taken.pk, outcome=end)
    take_next(people[0])
    take_next(people[3])

    factories.job_type(max_attempts=3, retry_delay_seconds=60)
    for name in ("done", "retried", "broken", "running", "again"):
        submit("mail", key=name, unique=True)
    held = {job.key: job for job in hold(holder=Holder("w:1", "w"), types=["mail"], limit=10)}
    ends = {"done": "succeeded", "retried": "failed", "broken": "failed", "again": "released"}
    settle(
        outcomes=[
            Outcome(
                id=held[key].id,
                token=held[key].token,
                end=end,
                retry="never" if key == "broken" else "policy",
            )
            for key, end in ends.items()
        ]
    )
    control.retry(job=job("broken"), actor="admin:olga", reason="again")
    submit("mail", key="waiting", unique=True)
    submit("mail", key="later", delay=timedelta(hours=1))
    cancelled = submit("mail", key="gone").id
    control.cancel(job=Job.objects.get(pk=cancelled), actor="admin:olga", reason="not needed")


def job(key: str) -> Job:
    return Job.objects.get(key=key)


def change(key: str, **columns: Any) -> int:
    """Write into a job past all services; returns its number."""
    Job.objects.filter(key=key).update(**columns)
    return job(key).pk


def dispatch_of(state: str) -> Dispatch:
    found = Dispatch.objects.filter(state=state).order_by("pk").first()
    assert found is not None
    return found


def journal(key: str, event: str, from_state: str, to_state: str, **fields: Any) -> None:
    """One more entry about a job, an hour after all others."""
    later = clock.now() + timedelta(hours=1)
    JournalEntry.objects.create(
        id=ids.lowest_id_at(later),
        at=later,
        source="job",
        subject_id=job(key).pk,
        event=event,
        from_state=from_state,
        to_state=to_state,
        **fields,
    )


def test_clean_system_is_one_line_and_exit_0(work: None) -> None:
    """S-marked invariants hold on what the services wrote."""
    code, text = audit()
    assert code == 0, text
    [line] = text.splitlines()
    names = "I1 I5 I11 I17 I19 I26 I27 I28 I29 I35 I39 I53 I54 I61 I63 I64 I65 I66 I67 I68 I69 I71"
    names += " I72"
    assert line.startswith(f"ok: {', '.join(names.split())} checked in ")
    assert "5 dispatches, " in line
    assert "8 jobs, the newest 8 jobs in the journal" in line
    assert "no entry is older than 20 minutes yet" in line


# --- dispatch -----------------------------------------------------------------------------------
def test_stock_that_counts_too_many_is_reported(work: None) -> None:
    """I1."""
    task = OnceTask.objects.get()
    Stock.objects.filter(source="once").update(handed=4)
    assert breaches() == [f"I1 quota once:{task.pk}/0: handed 4, but 3 dispatches count to it"]


def test_dispatch_without_a_stock_is_reported(work: None) -> None:
    """I1: also when there is no row that could count."""
    Stock.objects.filter(source="rotate").delete()
    [line] = breaches()
    assert line.startswith(f"I1 quota rotate:{RotateTask.objects.get().pk}/")
    assert line.endswith(": handed 0, but 1 dispatches count to it")


def test_stocks_wrong_by_as_much_up_and_down_are_reported(work: None) -> None:
    """I1: sums that agree do not hide it."""
    once, rotate = Stock.objects.get(source="once"), Stock.objects.get(source="rotate")
    Stock.objects.filter(pk=once.pk).update(handed=F("handed") + 1)
    Stock.objects.filter(pk=rotate.pk).update(handed=F("handed") - 1)
    assert [line.split("/")[0] for line in breaches()] == [
        f"I1 quota once:{once.task}",
        f"I1 quota rotate:{rotate.task}",
    ]


def test_more_handed_out_than_planned_is_reported(work: None) -> None:
    """I1: only while nobody has changed the plan; an edit may lower it below what is out."""
    task = OnceTask.objects.get()
    OnceTask.objects.update(dispatch_times=1)
    assert breaches() == [f"I1 quota once:{task.pk}/0: handed 3 of 1 dispatch times"]
    OnceTask.objects.update(version=2)
    assert audit()[0] == 0


def test_columns_of_a_dispatch_that_disagree_are_reported(
    work: None, subtests: pytest.Subtests
) -> None:
    """I1, I5, I17, I19."""
    for state, columns, line in [
        ("succeeded", {"state": "odd"}, "I17 {}: has the unknown state odd"),
        ("open", {"open_for": None}, "I5 {}: is open, but does not keep person {executor}"),
        ("released", {"open_for": 999}, "I5 {}: has ended as released, but keeps person 999"),
        ("failed", {"finished_at": None}, "I17 {}: is failed, but its end is at None"),
        ("open", {"holds_stock": False}, "I1 {}: is open, but counts to the quota: "),
        ("released", {"holds_stock": True}, "I1 {}: is released, but counts to the quota: "),
        ("open", {"occurrence": F("occurrence") + 1}, "I19 {}: is occurrence "),
    ]:
        with subtests.test(line=line), undone():
            broken = dispatch_of(state)
            Dispatch.objects.filter(pk=broken.pk).update(**columns)
            wanted = line.format(f"dispatch {broken.pk}", executor=broken.executor_id)
            assert [breach for breach in breaches() if breach.startswith(wanted)]


def test_end_before_the_hand_out_is_reported(work: None) -> None:
    """I17: beyond what two clocks may differ."""
    broken = dispatch_of("succeeded")
    ended = Dispatch.objects.filter(pk=broken.pk)
    ended.update(finished_at=broken.dispatched_at - timedelta(seconds=3))
    assert audit()[0] == 0
    ended.update(finished_at=broken.dispatched_at - timedelta(seconds=30))
    [line] = breaches()
    assert line.startswith(f"I17 dispatch {broken.pk}: ended at ")


def test_two_open_dispatches_of_one_executor_are_reported(work: None) -> None:
    """I5: the unique key does not see a row that has lost its open_for."""
    one, other = Dispatch.objects.filter(state="open")
    Dispatch.objects.filter(pk=other.pk).update(executor=one.executor, round=1, open_for=None)
    assert f"I5 executor {one.executor_id}: has 2 open dispatches" in breaches()


def test_hand_out_or_end_missing_in_the_journal_is_reported(work: None) -> None:
    """I17, I53."""
    entries = JournalEntry.objects.filter(source="dispatch")
    opened, failed, ended = dispatch_of("open"), dispatch_of("failed"), dispatch_of("released")
    entries.filter(subject_id=opened.pk, event="handed_out").delete()
    entries.filter(subject_id=failed.pk, event="failed").delete()
    entries.filter(subject_id=ended.pk, event="released").update(to_state="succeeded")
    assert sorted(breaches()) == [
        f"I17 dispatch {opened.pk}: has 0 hand-outs in the journal",
        f"I53 dispatch {failed.pk}: is failed, but has 0 ends in the journal",
        f"I53 dispatch {ended.pk}: is released, but has another end in the journal",
    ]


def test_what_is_older_than_the_journal_is_not_compared_with_it(work: None, settings: Any) -> None:
    """I17, I28, I39, I53: dispatches of a standing task and open jobs outlive their entries."""
    JournalEntry.objects.all().delete()
    assert {line.split()[0] for line in breaches()} == {"I17", "I28", "I39", "I53"}
    settings.JOURNAL_RETENTION = timedelta(microseconds=1)
    code, text = audit()
    assert code == 0, text


# --- jobs ---------------------------------------------------------------------------------------
HOUR = timedelta(hours=1)
NOW = clock.now


def test_columns_of_a_job_that_disagree_are_reported(work: None, subtests: pytest.Subtests) -> None:
    """I26–I29, I35, I39."""
    for key, columns, line in [
        ("done", {"status": "odd"}, "I26 {}: has the unknown status odd"),
        ("done", {"finished_at": None}, "I26 {}: is succeeded, but its end is at None"),
        ("waiting", {"finished_at": NOW}, "I26 {}: is ready, but its end is at 2"),
        ("running", {"lease_token": ""}, "I27 {}: is running, but lacks one of: "),
        ("running", {"worker": ""}, "I27 {}: is running, but lacks one of: "),
        ("running", {"lease_until": None}, "I27 {}: is running, but lacks one of: "),
        ("running", {"hard_end_at": None}, "I27 {}: is running, but lacks one of: "),
        ("running", {"hard_end_at": NOW}, "I27 {}: has a lease until "),
        ("waiting", {"lease_until": NOW}, "I27 {}: is ready, but has a lease until 2"),
        ("running", {"holds": 0}, "I28 {}: has 1 tries, but was held 0 times"),
        ("retried", {"max_attempts": 1}, "I28 {}: is scheduled with 1 of 1 tries used"),
        ("running", {"attempts": 0}, "I28 {}: is running with 0 of 3 tries used"),
        ("running", {"lease_until": lambda: NOW() - HOUR}, "I29 {}: is still running, but its "),
        ("done", {"unique_key": "mail|done"}, "I35 {}: is succeeded, but its key still blocks "),
        ("waiting", {"unique_key": None}, "I35 {}: is ready, unique: "),
        ("waiting", {"unique_key": "mail|other"}, "I35 {}: is ready, unique: "),
        ("later", {"unique_key": "mail|later"}, "I35 {}: is scheduled, unique: "),
        ("done", {"version": 1}, "I39 {}: has version 1 after 1 tries"),
    ]:
        with subtests.test(line=line), undone():
            values = {name: each() if callable(each) else each for name, each in columns.items()}
            wanted = line.format(f"job {change(key, **values)}")
            assert [breach for breach in breaches() if breach.startswith(wanted)]


def test_lease_just_over_is_left_to_the_rescue(work: None) -> None:
    """I29: the rescue needs its second; a breach has been left alone for a minute."""
    change("running", lease_until=clock.now() - timedelta(seconds=5))
    assert audit()[0] == 0


def test_end_missing_in_the_journal_is_reported(work: None) -> None:
    """I28, I39, I53: of a hold, of the job, and as a hole in its versions."""
    number = job("done").pk
    JournalEntry.objects.filter(source="job", subject_id=number).delete()
    assert breaches() == [
        f"I28 job {number}: is succeeded and was held 1 times, but has 0 ends in the journal",
        f"I53 job {number}: is succeeded, but has no such end in the journal",
    ]


def test_change_without_an_entry_is_reported(work: None) -> None:
    """I39."""
    number = change("waiting", version=9)
    assert breaches() == [f"I39 job {number}: has version 9, but its tries and entries make 1 to 2"]


def test_final_job_moved_by_nobody_is_reported(work: None) -> None:
    """I26: terminal states change only by a person."""
    JournalEntry.objects.filter(event="retried").update(actor="")
    assert breaches() == [
        f"I26 job {job('broken').pk}: went from failed to ready without the name of a person"
    ]


def test_hold_that_ended_twice_is_reported(work: None) -> None:
    """I27."""
    entry = JournalEntry.objects.get(source="job", subject_id=job("done").pk)
    journal("done", "retried", "succeeded", "ready", actor="admin:olga")
    JournalEntry.objects.create(
        id=entry.pk + (1 << 60), at=entry.at, source="job", subject_id=entry.subject_id,
        event="succeeded", from_state="running", to_state="succeeded", data=entry.data,
    )  # fmt: skip
    assert f"I27 job {job('done').pk}: try 1 has ended twice" in breaches()


# --- the report -----------------------------------------------------------------------------------
def test_breach_that_is_gone_at_the_second_check_is_not_reported(
    work: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    change("waiting", unique_key=None)

    def mend(_seconds: float) -> None:
        change("waiting", unique_key="mail|waiting")

    monkeypatch.setattr(auditing.time, "sleep", mend)
    assert audit()[0] == 0


def test_only_the_first_breaches_of_an_invariant_are_reported(work: None) -> None:
    for number in range(23):
        submit("mail", key=f"more-{number}")
    Job.objects.filter(key__startswith="more-").update(finished_at=clock.now())
    *lines, more = breaches()
    assert len(lines) == 20
    assert {line[:8] for line in lines} == {"I26 job "}
    assert more == "I26 jobs: and 3 more"


def test_recent_bounds_what_is_compared_with_the_journal(work: None) -> None:
    JournalEntry.objects.filter(source="dispatch").delete()
    code, text = audit("--recent", "1")
    assert code == 1
    assert len({line.split()[2] for line in text.splitlines()[:-1]}) == 1
    assert "the newest 1 dispatches in the journal" in text


def test_json_has_every_check_and_the_breaches(work: None) -> None:
    number = change("done", finished_at=None)
    code, text = audit("--json")
    answer = json.loads(text)
    assert (code, answer["ok"], answer["recent"]) == (1, False, auditing.RECENT)
    [broken] = [check for check in answer["checks"] if check["breaches"]]
    assert (broken["name"], broken["rows"], broken["found"]) == ("jobs", 8, 1)
    assert broken["breaches"] == [
        {
            "invariant": "I26",
            "subject": f"job {number}",
            "text": "is succeeded, but its end is at None",
        }
    ]


def test_audit_changes_nothing(work: None) -> None:
    change("done", finished_at=None)
    with CaptureQueriesContext(connection) as queries:
        audit()
    assert {query["sql"].split()[0] for query in queries} == {"SELECT"}
