"""How long a key stays taken, what a submission does to the job that has it, and a job for each
host."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from apps.common.errors import Conflict, Invalid
from apps.jobs.admin.job_panels import together_panels
from apps.jobs.models import ArchivedJob, Job, Worker
from apps.jobs.rules import reasons
from apps.jobs.services import control
from apps.jobs.services.archive import archive_ended
from apps.jobs.services.discard import discard_exhausted
from apps.jobs.services.job_filters import JobFilters
from apps.jobs.services.leases import Heartbeat, renew
from apps.jobs.services.promote import promote_due
from apps.jobs.services.rescue import free_hosts
from apps.jobs.services.submit import Submission, submit, submit_many
from tests import factories
from tests.auditing import audit
from tests.emptying import undone
from tests.frozen import FrozenClock
from tests.jobs import HERE, THERE, end, job_type, last_entry, rescue, row, take
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]

HOUR = timedelta(hours=1)
UNIQUE: dict[str, Any] = {"key": "a", "unique": True}


# --- for a while after the end ------------------------------------------------------------------
def test_key_stays_taken_for_a_while_after_any_end(
    mail: FrozenClock, subtests: pytest.Subtests
) -> None:
    ways: dict[str, Any] = {
        "succeeded": lambda _: end(take()[0]),
        "failed": lambda _: end(take()[0], "failed", error="broke"),
        "cancelled": lambda n: control.cancel(job=row(n), actor="admin:olga", reason="x"),
    }
    for status, ends in ways.items():
        with subtests.test(status):
            first = submit("mail", key=status, unique=True, unique_for=60, max_attempts=1)
            ends(first.id)
            assert audit()[0] == 0, audit()[1]
            mail.advance(seconds=59.9)
            twin = submit("mail", key=status, unique=True)
            assert twin == (first.id, False, status, "returned", "")
            mail.advance(seconds=0.1)
            again = submit("mail", key=status, unique=True)
            assert again.created
            end(take()[0])
            assert row(first.id).unique_key is None


def test_without_it_a_key_is_free_at_once(mail: FrozenClock) -> None:
    submit("mail", **UNIQUE)
    end(take()[0])
    assert submit("mail", **UNIQUE).created


def test_retry_beside_a_kept_key_says_who_has_it(mail: FrozenClock) -> None:
    old = submit("mail", **UNIQUE)
    end(take()[0])
    kept = submit("mail", **UNIQUE, unique_for=60)
    end(take()[0])

    with pytest.raises(Conflict, match=rf"Job {kept.id}.* has ended and keeps its key"):
        control.retry(job=row(old.id), actor="admin:olga")
    again = control.retry(job=row(kept.id), actor="admin:olga")
    assert (again.status, again.unique_key) == ("ready", "mail|a")
    end(take()[0])
    mail.advance(seconds=60)
    assert control.retry(job=row(old.id), actor="admin:olga").status == "ready"


def test_archive_has_no_key_and_still_knows_for_how_long_it_was(mail: FrozenClock) -> None:
    week = 7 * 86_400
    first = submit("mail", **UNIQUE, unique_for=week)
    end(take()[0])
    mail.advance(seconds=week + 1)
    archive_ended(until=mail.instant + HOUR)
    assert ArchivedJob.objects.get(pk=first.id).unique_for == week
    assert submit("mail", **UNIQUE).created


# --- what becomes of the twin -------------------------------------------------------------------
def test_waiting_twin_is_replaced_or_moved(mail: FrozenClock, subtests: pytest.Subtests) -> None:
    at = mail.instant
    cases: tuple[tuple[str, Any, dict[str, Any], tuple[Any, ...]], ...] = (
        # what the twin had, what is said of the new one, what the twin has then
        ("return", HOUR, {"delay": HOUR / 2}, ("returned", {"n": 1}, 5, HOUR, 1)),
        ("replace", HOUR, {"delay": HOUR / 2}, ("replaced", {"n": 2}, 0, HOUR / 2, 2)),
        ("replace", HOUR, {"priority": 7}, ("replaced", {"n": 2}, 7, None, 2)),
        ("replace", None, {}, ("replaced", {"n": 2}, 0, None, 2)),
        ("replace", None, {"delay": HOUR}, ("replaced", {"n": 2}, 0, HOUR, 2)),
        ("later", HOUR, {"delay": 2 * HOUR, "priority": 9}, ("moved", {"n": 1}, 5, 2 * HOUR, 2)),
        ("later", None, {"delay": HOUR}, ("moved", {"n": 1}, 5, HOUR, 2)),
        ("later", HOUR, {"delay": HOUR / 2}, ("returned", {"n": 1}, 5, HOUR, 1)),
        ("later", None, {}, ("returned", {"n": 1}, 5, None, 1)),
    )
    for number, (wish, waits, said, expected) in enumerate(cases):
        with subtests.test(wish=wish, waits=waits, said=said):
            named: dict[str, Any] = {"key": f"k{number}", "unique": True}
            first = submit("mail", {"n": 1}, **named, delay=waits, priority=5)
            answer = submit("mail", {"n": 2}, **named, **said, on_twin=wish, by="key:shop")
            twin = row(first.id)
            word, context, priority, waits_then, version = expected
            status = "scheduled" if waits_then else "ready"
            assert answer == (first.id, False, status, word, "")
            assert (twin.context, twin.priority, twin.status) == (context, priority, status)
            assert twin.run_at == at + (waits_then or timedelta(0))
            assert (twin.expected_at, twin.version) == (twin.run_at, version)
            if version > 1:
                entry = last_entry(first.id)
                said_why = {"replaced": reasons.REPLACED, "moved": reasons.MOVED}[word]
                assert (entry.event, entry.actor, entry.reason) == ("edited", "key:shop", said_why)
    assert Job.objects.count() == len(cases)
    assert audit()[0] == 0, audit()[1]


def test_due_twin_keeps_its_place_when_it_is_replaced(mail: FrozenClock) -> None:
    """Whoever replaces again and again would starve it else."""
    first = submit("mail", **UNIQUE)
    place = row(first.id).order_key
    mail.advance(seconds=5)
    submit("mail", {"n": 2}, **UNIQUE, on_twin="replace")
    assert (row(first.id).order_key, row(first.id).context) == (place, {"n": 2})
    # The same once more is no change.
    assert submit("mail", {"n": 2}, **UNIQUE, on_twin="replace").twin == "replaced"
    assert row(first.id).version == 2


def test_twin_between_tries_or_stages_begins_anew_with_another_context(
    mail: FrozenClock, subtests: pytest.Subtests
) -> None:
    """What the tries before it have done was about the old one."""
    job_type("mail", handler="mail", stages=["read", "write"], max_attempts=3)
    ends: dict[str, dict[str, Any]] = {
        "failed": {},
        "stage_done": {"stage": "write", "checkpoint": {"page": 7}},
        "yielded": {"checkpoint": {"page": 7}, "delay": HOUR},
    }
    begun = ("stage", "attempts", "checkpoint", "sequence", "progress")
    for how, said in ends.items():
        with subtests.test(how), undone():
            first = submit("mail", {"n": 1}, **UNIQUE).id
            [held] = take()
            renew(heartbeats=[Heartbeat(id=first, token=held.token, checkpoint=1, progress=50)])
            end(held, how, **said)
            before = Job.objects.values(*begun).get(pk=first)

            submit("mail", {"n": 1}, **UNIQUE, on_twin="replace")
            assert Job.objects.values(*begun).get(pk=first) == before
            submit("mail", {"n": 2}, **UNIQUE, on_twin="replace", delay=HOUR)

            wanted = dict(zip(begun, ("read", 0, None, 0, None), strict=True))
            assert Job.objects.values(*begun).get(pk=first) == wanted
            assert audit()[0] == 0, audit()[1]


def test_twin_that_runs_or_has_ended_is_left_alone(mail: FrozenClock) -> None:
    for wish in ("replace", "later"):
        first = submit("mail", {"n": 1}, **UNIQUE, unique_for=60)
        [held] = take()
        for status in ("running", "succeeded"):
            answer = submit("mail", {"n": 2}, **UNIQUE, on_twin=wish, delay=HOUR)
            assert answer == (first.id, False, status, "returned", "")
            assert row(first.id).context == {"n": 1}
            if status == "running":
                end(held)
        mail.advance(seconds=60)


def test_many_at_once_in_their_order_by_few_statements(mail: FrozenClock) -> None:
    def some(count: int) -> list[Submission]:
        return [
            Submission("mail", {"n": n}, key=f"k{n % count}", unique=True, on_twin="replace")
            for n in range(2 * count)
        ]

    made = submit_many(some(3))
    assert [each.twin for each in made] == ["", "", "", *["replaced"] * 3]
    assert [row(each.id).context for each in made[:3]] == [{"n": 3}, {"n": 4}, {"n": 5}]
    submit_many(some(60))  # the locks of new keys are made once
    few, many = (len(sent_by(lambda n=n: submit_many(some(n)))) for n in (4, 60))
    assert few == many


def test_what_makes_no_sense_is_refused(mail: FrozenClock, subtests: pytest.Subtests) -> None:
    job_type("pool", pool=True)
    for type_, said, field in (
        ("mail", {"unique_for": 60}, "unique_for"),
        ("mail", {"on_twin": "later"}, "on_twin"),
        ("mail", {**UNIQUE, "on_twin": "sooner"}, "on_twin"),
        ("mail", {**UNIQUE, "unique_for": 0}, "unique_for"),
        ("mail", {**UNIQUE, "unique_for": 7 * 86_400 + 1}, "unique_for"),
        ("mail", {**UNIQUE, "unique_for": True}, "unique_for"),
        ("pool", {"key": "a", "unique_for": 60}, "unique_for"),
    ):
        with subtests.test(type=type_, said=said), pytest.raises(Invalid) as caught:
            submit(type_, **said)
        assert [each.field for each in caught.value.errors] == [field]
    assert not Job.objects.exists()


# --- a type that asks for it later --------------------------------------------------------------
def test_ended_job_keeps_its_key_as_its_type_asks_when_it_opens_again(
    mail: FrozenClock, subtests: pytest.Subtests
) -> None:
    """I35, I45: whether a retry or an undo opens it, and whether its key is taken by then."""
    who = {"actor": "admin:1", "reason": "again"}

    def retried(job: Job) -> None:
        control.retry(job=job, **who)

    def put_back(job: Job) -> None:
        refused = control.undo_each([job], {job.pk: last_entry(job.pk)}, **who)
        for error in refused.values():
            raise error

    settings: tuple[dict[str, Any], ...] = ({"unique": "always"}, {"pool": True})
    for opens, asked in product((retried, put_back), settings):
        with subtests.test(opens.__name__, asked=asked), undone():
            job_type("mail", handler="mail")
            free, taken = (submit("mail", key=key).id for key in ("free", "taken"))
            for number in (free, taken):
                control.cancel(job=row(number), **who)
            job_type("mail", handler="mail", **asked)
            newer = submit("mail", key="taken").id

            opens(row(free))
            with pytest.raises(Conflict, match=f"Job {newer}, "):
                opens(row(taken))

            assert submit("mail", key="free") == (free, False, "ready", "returned", "")
            assert row(taken).status == "cancelled"
            assert audit()[0] == 0, audit()[1]


# --- everywhere ---------------------------------------------------------------------------------
def test_each_living_host_that_serves_the_type_gets_a_job(mail: FrozenClock) -> None:
    job_type("mail", handler="mail")
    for name in ("host-b:1", "host-a:1", "host-a:2"):
        factories.worker(name)
    factories.worker("host-c:1", types=["other"])
    factories.worker("host-d:1", last_heartbeat_at=mail.instant - HOUR)
    factories.worker("x:1", host="")

    made = submit("mail", {"all": True}, key="reload", everywhere=True, by="key:shop")

    assert [(each.host, each.created) for each in made] == [("host-a", True), ("host-b", True)]
    rows = [row(each.id) for each in made]
    assert {each.together for each in rows} == {made[0].id}
    assert [each.affinity_host for each in rows] == ["host-a", "host-b"]
    submit("mail", key="reload")
    assert sorted(each.affinity_host for each in Job.objects.all()) == ["", "host-a", "host-b"]
    assert made[1].id in {each.id for each in take(by=THERE)}
    assert [each.id for each in take(by=HERE)] == [made[0].id]
    # The page and the list show them as one group, found by the primary key.
    panel = str(together_panels(row(made[0].id), Job.objects.all())[0].body)
    assert panel.count("host-a") == panel.count("host-b") == 1
    narrowed = JobFilters.narrow(Job.objects.all(), JobFilters.read({"together": made[0].id}))
    assert set(narrowed.values_list("pk", flat=True)) == {each.id for each in made}


def test_job_of_a_host_stays_there_whatever_becomes_of_it(
    mail: FrozenClock, subtests: pytest.Subtests
) -> None:
    job_type("mail", handler="mail", max_attempts=9, retry_delay_seconds=0)
    for name in ("host-a:1", "host-b:1"):
        factories.worker(name)
    number = submit("mail", everywhere=True)[0].id
    for how in ("failed", "released", "interrupted", "lost", "failed for good", "retried"):
        with subtests.test(how):
            mine = next(each for each in take(by=HERE) if each.id == number)
            if how == "lost":
                mail.advance(hours=1)
                rescue(mail)
            elif how == "failed for good":
                end(mine, "failed", retry="never")
                control.retry(job=row(number), actor="admin:1", reason="again")
            else:
                end(mine, how.replace("retried", "failed"))
            # Also while its host is away.
            free_hosts(alive=["host-b"], now=mail.instant)
            promote_due()
            assert (row(number).status, row(number).affinity_host) == ("ready", "host-a")
            assert number not in {each.id for each in take(by=THERE)}


def test_job_of_a_host_that_ended_before_it_ran_is_retried_there(
    mail: FrozenClock, subtests: pytest.Subtests
) -> None:
    """Also from the archive, and where somebody has sent it to another host."""
    job_type("mail", handler="mail", expires_after_seconds=3600)
    who = {"actor": "admin:1", "reason": "not now"}

    def sent(job: Job) -> None:
        changes = {"affinity_host": "host-a"}
        control.edit(job=job, version=job.version, changes=changes, **who)
        control.cancel(job=row(job.pk), **who)

    def expired(_job: Job) -> None:
        mail.advance(hours=2)
        assert discard_exhausted(until=mail.instant + HOUR) == 2

    ends: dict[str, tuple[Callable[[Job], object], str]] = {
        "cancelled": (lambda job: control.cancel(job=job, **who), "host-b"),
        "done": (lambda job: control.mark_done(job=job, **who), "host-b"),
        "expired": (expired, "host-b"),
        "sent": (sent, "host-a"),
    }
    for (how, (ended, host)), is_old in product(ends.items(), (False, True)):
        with subtests.test(how, is_old=is_old):
            Job.objects.all().delete()
            Worker.objects.all().delete()
            for name in ("host-a:1", "host-b:1"):
                factories.worker(name)
            number = submit("mail", everywhere=True)[1].id
            ended(row(number))
            if is_old:
                mail.advance(days=30)
                archive_ended(until=mail.instant + HOUR)
            control.retry(job=row(number) if not is_old else ArchivedJob(pk=number), **who)
            free_hosts(alive=["host-c"], now=mail.instant)
            assert (row(number).status, row(number).affinity_host) == ("ready", host)


def test_nowhere_and_unique_are_refused(mail: FrozenClock) -> None:
    job_type("mail", handler="mail")
    with pytest.raises(Conflict, match="No worker is alive that serves mail"):
        submit("mail", everywhere=True)
    factories.worker()
    with pytest.raises(Invalid, match="A job for each host is not unique"):
        submit("mail", **UNIQUE, everywhere=True)
    with pytest.raises(Invalid, match="There is no job type"):
        submit("unheard-of", everywhere=True)
    assert not Job.objects.exists()
