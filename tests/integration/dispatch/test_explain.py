"""Why not: every reason by its code, and eligible only if a pull would hand it out; why nothing:
every task that could be meant, by what stands against it first. S0.31, U4."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from apps.common.errors import Invalid, NotFound
from apps.dispatch.models import TASK_MODELS, Dispatch, Executor, OnceTask
from apps.dispatch.rules.explain import Explanation
from apps.dispatch.services import ending, executors, explain, tasks
from tests import callback, factories
from tests.callback import take_next
from tests.callback import taken as pulled
from tests.frozen import FrozenClock
from tests.integration.api.world import checksum
from tests.integration.dispatch import plans
from tests.pages import text_of

pytestmark = pytest.mark.django_db

NOW = plans.NOW
HOUR = timedelta(hours=1)


def after(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def explained(executor: Executor, task: Any, at: datetime | None = None) -> Explanation:
    fresh = tasks.find_task(type(task), task.pk, also_deleted=True)
    return explain.explain(executor=executor, task=fresh, occurrence_at=at)


def reasons(executor: Executor, task: Any, at: datetime | None = None) -> Any:
    return [(r.code, r.until) for r in explained(executor, task, at).reasons]


class TestCodes:
    def test_not_due(self, alice: Executor) -> None:
        assert reasons(alice, factories.once_task(alice, start_at=after(5))) == [
            ("not_due", after(5))
        ]
        daily = factories.rotation(alice, start_at=after(1), rule={"every_days": 1, "at": "10:00"})
        at = daily.due(NOW).next_at
        assert reasons(alice, daily) == [("not_due", at)]
        # Of a rotation without any occurrence nobody can say when.
        rule = {"every_days": 9, "at": "08:00"}
        never = factories.rotation(alice, rule=rule, time_zone="UTC", end_at=after(60))
        assert explained(alice, never).occurrence_at is None
        assert reasons(alice, never) == [("not_due", None)]

    def test_ended_paused_and_deleted(self, alice: Executor, frozen_clock: FrozenClock) -> None:
        task = factories.once_task(alice, end_at=after(1))
        series = factories.rotation(alice, end_at=after(40))
        frozen_clock.advance(minutes=1)
        assert reasons(alice, task) == [("ended", None)]
        frozen_clock.advance(minutes=39)
        assert reasons(alice, series) == [("ended", None)]
        assert explained(alice, series).occurrence_at == after(30)
        task = factories.once_task(alice, status="paused")
        assert reasons(alice, task) == [("paused", None)]
        tasks.delete_task(task=task, actor="test")
        assert reasons(alice, task) == [("deleted", None)]

    @pytest.mark.both
    def test_quota_used_until_the_holder_may_lose_it(self, alice: Executor) -> None:
        """The first deadline of those who have it, where an expired one gives its stock back."""
        group = factories.group("gid_a", ["uid_alice", "uid_bob"])
        task = factories.once_task(group, lease_seconds=600)
        bob = factories.member("uid_bob")
        taken = pulled(bob)
        assert reasons(alice, task) == [("quota_used", after(10))]
        tasks.update_task(task=task, changes={"on_expiry": "keep"}, actor="test")
        assert reasons(alice, task) == [("quota_used", None)]
        callback.call_back(executor=bob, number=taken.pk, outcome="succeeded")
        assert reasons(alice, task) == [("quota_used", None)]

    def test_already_taken(self, alice: Executor) -> None:
        task = factories.once_task(alice, mode="multi", dispatch_times=5)
        taken = callback.finish(alice)
        answer = explained(alice, task)
        assert [reason.code for reason in answer.reasons] == ["already_taken"]
        assert answer.reasons[0].detail == f"uid_alice already had it as dispatch {taken.pk}."

    def test_cooling_down(self, alice: Executor, frozen_clock: FrozenClock) -> None:
        """S0.17: not before the lease time is over."""
        task = factories.once_task(alice, lease_seconds=600)
        ending.release(dispatch=pulled(alice), actor="test")
        frozen_clock.advance(minutes=1)
        assert reasons(alice, task) == [("cooling_down", after(10))]
        frozen_clock.move_to(after(10))
        assert reasons(alice, task) == [("ok", None)]

    def test_in_flight(self, alice: Executor) -> None:
        task = factories.once_task(alice, lease_seconds=600, mode="multi", dispatch_times=2)
        other = factories.once_task(alice)
        taken = pulled(alice)
        mine, others = (explained(alice, each).reasons for each in (task, other))
        assert [(reason.code, reason.until) for reason in mine] == [("in_flight", after(10))]
        assert [(reason.code, reason.until) for reason in others] == [("in_flight", after(10))]
        assert "a pull returns the same one" in mine[0].detail
        assert f"another task, dispatch {taken.pk}" in others[0].detail

    def test_in_flight_past_its_deadline_is_over(
        self, alice: Executor, frozen_clock: FrozenClock
    ) -> None:
        """As a pull would find it, though no sweep has ended it yet."""
        bob = factories.user("uid_bob")
        back = factories.once_task(alice, lease_seconds=600, on_expiry="give_back")
        kept = factories.once_task(bob, lease_seconds=600, on_expiry="keep")
        other = factories.once_task(alice)
        pulled(alice), pulled(bob)
        frozen_clock.advance(minutes=10)
        assert reasons(alice, back) == [("cooling_down", after(20))]
        assert reasons(bob, kept) == [("already_taken", None), ("quota_used", None)]
        assert reasons(alice, other) == [("ok", None)]

    def test_outside_window(self, alice: Executor, frozen_clock: FrozenClock) -> None:
        """S0.15: what is older than the look-back, and nothing else, whatever was done since."""
        old = factories.once_task(alice, start_at=after(-3000))
        factories.once_task(alice, priority=9)
        callback.finish(alice)
        assert reasons(alice, old) == [("ok", None)]
        frozen_clock.move_to(old.start_at + timedelta(days=7))
        answer = explained(alice, old).reasons
        assert [reason.code for reason in answer] == ["outside_window"]
        assert answer[0].detail == (
            "It was due at 2026-02-28T07:00:00Z and could be had until 2026-03-07T07:00:00Z."
        )

    def test_misfire_skipped(self, alice: Executor, frozen_clock: FrozenClock) -> None:
        series = factories.rotation(alice, start_at=after(-90), misfire="once")
        assert reasons(alice, series, after(-60)) == [("misfire_skipped", None)]
        assert reasons(alice, series, after(-30)) == [("ok", None)]
        assert reasons(alice, series) == [("ok", None)]
        assert explained(alice, series).occurrence_at == NOW
        # I23: an edit leaves no past.
        series = factories.rotation(alice, status="paused")
        frozen_clock.advance(minutes=10)
        tasks.update_task(task=series, changes={"status": "active"}, actor="test")
        answer = explained(alice, series, NOW).reasons
        assert [reason.code for reason in answer] == ["misfire_skipped"]
        assert "changed or resumed at 2026-03-02T09:10:00Z" in answer[0].detail


def test_all_reasons_are_reported(alice: Executor, frozen_clock: FrozenClock) -> None:
    """S0.31: not only the first one."""
    group = factories.group("gid_a", ["uid_bob"], enabled=True)
    task = factories.once_task(group, end_at=after(5))
    pulled(factories.member("uid_bob"))
    factories.once_task(alice)
    pulled(alice)
    executors.update_executor(executor=alice, changes={"enabled": False}, actor="test")
    executors.update_executor(executor=group, changes={"enabled": False}, actor="test")
    tasks.update_task(task=task, changes={"status": "paused"}, actor="test")
    frozen_clock.advance(days=8)
    answer = [code for code, _ in reasons(alice, task)]
    assert answer == [
        "paused",
        "not_member",
        "executor_disabled",
        "executor_disabled",
        "ended",
        "outside_window",
        "quota_used",
    ]


def test_what_there_is_not_is_refused(alice: Executor) -> None:
    group = factories.group("gid_a")
    once, series = factories.once_task(alice), factories.rotation(alice)
    with pytest.raises(Invalid, match="gid_a is a group"):
        explained(group, once)
    with pytest.raises(Invalid, match="one occurrence, here at 2026-03-02T09:00:00Z"):
        explained(alice, once, after(1))
    with pytest.raises(Invalid, match="no occurrence at 2026-03-02T09:01:00Z"):
        explained(alice, series, after(1))
    with pytest.raises(NotFound, match="no once task 9999"):
        tasks.find_task(OnceTask, 9999, also_deleted=True)
    with pytest.raises(NotFound):
        tasks.find_task(OnceTask, once.pk, bound=["gid_a"], also_deleted=True)


@plans.in_worlds(30)
def test_eligible_is_what_a_pull_hands_out(
    world: dict[str, Any], frozen_clock: FrozenClock
) -> None:
    """S0.31: for every task and occurrence, when nothing better stands before it."""
    with plans.built(world, frozen_clock) as alice:
        before = checksum()
        found = [*occurrences(alice, frozen_clock.instant)]
        answer = [(*each, explained(alice, *each).eligible) for each in found]
        for group in explain.why_nothing(alice).groups:
            for each in group.examples:
                assert each.explanation == explained(alice, each.task)
                assert each.explanation.first.code == group.code
        assert checksum() == before
        for task, at, eligible in answer:
            with plans.forgotten():
                make_first(task)
                assert is_handed_out(alice, task, at) == eligible, (task, at)


def occurrences(executor: Executor, now: datetime) -> Any:
    for model in TASK_MODELS.values():
        for task in model.objects.all():
            if isinstance(task, OnceTask):
                yield task, task.start_at
                continue
            series = task.recurrence
            yield from ((task, at) for at, _ in zip(series.before(now), range(5), strict=False))
            yield from ((task, at) for at, _ in zip(series.after(now), range(1), strict=False))


def make_first(task: Any) -> None:
    """Nothing else is planned, so that nothing stands before it."""
    for model in TASK_MODELS.values():
        others = model.objects.all()
        if model is type(task):
            others = others.exclude(pk=task.pk)
        others.update(status="paused")


def is_handed_out(executor: Executor, task: Any, at: datetime) -> bool:
    """Whether it comes as a new dispatch before anything is due that was not."""
    open_one = Dispatch.objects.open_of(executor.pk)
    while isinstance(taken := take_next(executor), Dispatch):
        if open_one is not None and taken.pk == open_one.pk:
            return False
        if (taken.source, taken.task, taken.occurrence_at) == (task.source, task.pk, at):
            return True
        # An older occurrence of the same rotation; as if it had never been there.
        occurrence = (taken.source, taken.task, taken.occurrence)
        ending.cancel(dispatch=taken, actor="test", reason="test")
        assert Dispatch.objects.of(*occurrence).exists()
    return False


# --- why nothing ----------------------------------------------------------------------------------
@pytest.fixture
def member(frozen_clock: FrozenClock) -> Executor:
    factories.group("gid_a", ["uid_alice", "uid_bob"])
    return factories.member("uid_alice")


def grouped(found: explain.WhyNothing) -> dict[str, tuple[int, Any]]:
    return {group.code: (group.count, group.until) for group in found.groups}


def test_tasks_are_grouped_by_their_first_reason(
    member: Executor, frozen_clock: FrozenClock
) -> None:
    now, group = frozen_clock.instant, factories.member("gid_a")
    asleep = factories.group("gid_b", ["uid_alice"], enabled=False)
    factories.once_task(group, "taken", lease_seconds=600)
    take_next(factories.member("uid_bob"))
    for hours in (2, 1):
        factories.once_task(member, f"in {hours} h", start_at=now + hours * HOUR)
    factories.rotation(member, start_at=now + 3 * HOUR, rule={"every_minutes": 30})
    factories.once_task(member, "paused", status="paused")
    factories.once_task(asleep, "of the disabled group")
    factories.once_task(member, "over", start_at=now - timedelta(days=7))
    factories.once_task(member, "ended", start_at=now - 2 * HOUR, end_at=now)
    factories.once_task(factories.user("uid_eve"), "of somebody else")

    found = explain.why_nothing(member)

    assert grouped(found) == {
        "not_due": (3, now + HOUR),
        "quota_used": (1, now + timedelta(minutes=10)),
        "paused": (1, None),
        "executor_disabled": (1, None),
    }
    assert (found.until, found.more) == (now + timedelta(minutes=10), False)


def test_more_tasks_than_are_looked_at_are_said(member: Executor, monkeypatch: Any) -> None:
    monkeypatch.setattr(explain, "MAX_TASKS", 7)
    for _ in range(8):
        factories.once_task(member, status="paused")
    found = explain.why_nothing(member)
    assert grouped(found) == {"paused": (7, None)}
    assert len(found.groups[0].examples) == explain.MAX_EXAMPLES
    assert found.more


def test_queries_do_not_grow_with_the_tasks(
    member: Executor, django_assert_max_num_queries: Any
) -> None:
    factories.once_task(member)
    with django_assert_max_num_queries(20) as few:
        explain.why_nothing(member)
    for _ in range(40):
        factories.once_task(factories.member("gid_a"))
    with django_assert_max_num_queries(len(few)):
        explain.why_nothing(member)


# --- the page -------------------------------------------------------------------------------------
def why(client: Client, executor: Executor) -> str:
    return text_of(client.get(f"/admin/dispatch/executor/{executor.pk}/why/"))


def test_page_names_the_open_dispatch_first(member: Executor, admin_client: Client) -> None:
    assert "No task reaches it." in why(admin_client, member)
    factories.once_task(member, "Count")
    factories.once_task(member, "Later")
    take_next(member)
    text = why(admin_client, member)
    assert "uid_alice : has Count in hand until 2026-03-02 10:00:00 UTC : finish or release" in text
    assert "open dispatch 2 tasks" in text
    page = admin_client.get(f"/admin/dispatch/executor/{member.pk}/change/")
    assert f"/admin/dispatch/executor/{member.pk}/why/" in page.content.decode()


def test_page_names_what_could_come_next(
    member: Executor, frozen_clock: FrozenClock, admin_client: Client
) -> None:
    for hours in (3, 1, 2):
        start = frozen_clock.instant + hours * HOUR
        factories.once_task(member, f"Shelf check {hours}", start_at=start)
    text = why(admin_client, member)
    assert "Next: Shelf check 1 , at 2026-03-02 10:00:00 UTC at the earliest." in text
    places = [text.index(f"Shelf check {hours}") for hours in (1, 2, 3)]
    assert places == sorted(places)


def test_page_says_when_there_is_something(member: Executor, admin_client: Client) -> None:
    for _ in range(2):
        factories.once_task(member, status="paused")
    assert "Waiting alone changes nothing." in why(admin_client, member)
    factories.once_task(member)
    text = why(admin_client, member)
    assert "A pull hands a task out now. can have it 1 task" in text


@pytest.mark.both
def test_titles_that_an_operator_may_not_see_stay_hidden(member: Executor, limited: Any) -> None:
    factories.once_task(factories.member("gid_a"), "Secret", status="paused")
    text = why(limited(member), member)
    assert "Secret" not in text
    assert "not yours to see" in text


def test_titles_are_shown_to_those_who_may_see_such_rows(
    member: Executor, client: Client, subtests: Any
) -> None:
    """The page of an executor and this one need the right to see executors alone."""
    own = {
        "oncetask": factories.once_task(member, "Once secret", status="paused").title,
        "rotatetask": factories.rotation(member, "Rotated secret").title,
        "dispatch": factories.once_task(member, "Held secret", priority=9).title,
    }
    take_next(member)
    person = User.objects.create_user("eve", is_staff=True)
    for granted in ("executor", *own):
        permission = Permission.objects.get(codename=f"view_{granted}")
        person.user_permissions.set([permission, Permission.objects.get(codename="view_executor")])
        client.force_login(
            User.objects.get(pk=person.pk), backend="django.contrib.auth.backends.ModelBackend"
        )
        for page in ("change", "why"):
            with subtests.test(granted=granted, page=page):
                answer = client.get(f"/admin/dispatch/executor/{member.pk}/{page}/")
                text = text_of(answer)
                assert "not yours to see" in text
                # What she has in hand is a once task, too.
                shown = {granted, "dispatch"} if granted == "oncetask" else {granted}
                hidden = {title for kind, title in own.items() if kind not in shown}
                assert not any(title in text for title in hidden)
                assert granted == "executor" or own[granted] in text
