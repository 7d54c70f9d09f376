"""The executor's page: upcoming tasks, open dispatch, history, window and queue. S0.31, U2."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.test import Client
from django.urls import reverse

from apps.dispatch.models import Executor, OnceTask
from apps.dispatch.services import pull, queue, tasks
from apps.journal.models import JournalEntry
from tests import callback, factories
from tests.frozen import FrozenClock
from tests.integration.api.world import checksum
from tests.pages import change_url, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice(frozen_clock: FrozenClock) -> Executor:
    factories.group("gid_a", ["uid_alice"])
    return factories.member("uid_alice")


def page_of(client: Client, executor: Executor, **query: Any) -> str:
    url = reverse("admin:dispatch_executor_change", args=[executor.pk])
    answer = client.get(url, query)
    assert answer.status_code == 200
    return text_of(answer)


def upcoming(text: str) -> str:
    """The part of the page that shows what comes next."""
    return text.partition("Upcoming tasks")[2].partition("Its tasks and dispatches")[0]


def rebuild(client: Client, executor: Executor) -> Any:
    return client.post(reverse("admin:dispatch_executor_rebuild", args=[executor.pk]))


class TestUpcoming:
    def test_next_24_hours_in_hand_out_order(
        self, alice: Executor, admin_client: Client, frozen_clock: FrozenClock
    ) -> None:
        factories.once_task(alice, "Later", start_at=frozen_clock.instant + timedelta(hours=23))
        factories.once_task(alice, "Beyond", start_at=frozen_clock.instant + timedelta(hours=24))
        factories.once_task(alice, "Now", priority=1)
        factories.once_task(alice, "After that")

        text = upcoming(page_of(admin_client, alice))

        assert text.index("Now") < text.index("After that") < text.index("Later")
        assert "Beyond" not in text

    def test_period_is_chosen_by_the_address(
        self, alice: Executor, admin_client: Client, frozen_clock: FrozenClock
    ) -> None:
        start = frozen_clock.instant + timedelta(days=2)
        factories.once_task(alice, "In two days", start_at=start)

        def ahead(**query: Any) -> str:
            return upcoming(page_of(admin_client, alice, **query))

        assert "In two days" not in ahead()
        assert "In two days" in ahead(ahead="3")
        assert "In two days" not in ahead(ahead="nonsense")

    def test_period_may_be_of_days(
        self, alice: Executor, admin_client: Client, frozen_clock: FrozenClock
    ) -> None:
        """S0.31: both days are included, and of an open side there is as much as usual."""
        # It is Monday the second, 09:00.
        for days in (0, 1, 2, 3, 9):
            start = frozen_clock.instant + timedelta(days=days)
            factories.once_task(alice, f"On day {2 + days}.", start_at=start)

        def days_shown(**query: Any) -> list[int]:
            text = upcoming(page_of(admin_client, alice, **query))
            return [day for day in range(20) if f"On day {day}." in text]

        assert days_shown(from_day="2026-03-03", to_day="2026-03-04") == [3, 4]
        assert days_shown(from_day="2026-03-04") == [4, 5]
        assert days_shown(to_day="2026-03-03") == [2, 3]
        assert days_shown(from_day="", to_day="") == [2]

    def test_days_that_make_no_period_are_refused(
        self, alice: Executor, admin_client: Client, subtests: pytest.Subtests
    ) -> None:
        factories.once_task(alice, "Now")
        for first, last, message in (
            ("2026-03-04", "2026-03-03", "The last day lies before the first"),
            ("", "2026-03-01", "The period is over"),
            ("2026-03-03", "2028-03-03", "The period is too long"),
            ("tomorrow", "", "From: tomorrow is not a day; write for example 2026-03-31."),
            ("", "9999-12-31", "To: "),
        ):
            with subtests.test(first=first, last=last):
                text = page_of(admin_client, alice, from_day=first, to_day=last)
                assert message in text
                assert "Now" in upcoming(text)

    def test_many_items_are_counted(self, alice: Executor, admin_client: Client) -> None:
        factories.rotation(alice, rule={"every_minutes": 10})

        def shown(**query: Any) -> tuple[int, str]:
            html = admin_client.get(change_url(alice), query).content.decode()
            return html.count('data-label="Priority"'), html

        few, html = shown()
        assert few == 8
        assert 'id="upcoming-tasks"' in html
        assert 'href="?ahead=1#upcoming-tasks">136 more in this period.</a>' in html
        assert shown(ahead="1")[0] == 100
        assert "44 more in this period." in page_of(admin_client, alice, ahead="1")
        assert "The list is cut here." in page_of(admin_client, alice, ahead="30")

    def test_group_shows_what_becomes_due_for_its_members(
        self, alice: Executor, admin_client: Client
    ) -> None:
        group = Executor.objects.get(name="gid_a")
        factories.once_task(group, "For everybody", mode="multi", dispatch_times=3)

        text = page_of(admin_client, group)

        assert "Occurrences that become due for the members" in text
        assert "For everybody" in text
        assert "Window and queue" not in text


def test_open_and_latest_dispatches(alice: Executor, admin_client: Client) -> None:
    factories.once_task(alice, "First", priority=1)
    factories.once_task(alice, "Second")
    taken: Any = callback.take_next(alice)
    callback.call_back(executor=alice, number=taken.pk, outcome="succeeded")
    held: Any = callback.take_next(alice)

    text = page_of(admin_client, alice)

    open_one = text.partition("Open dispatch")[2].partition("Why not?")[0]
    latest = text.partition("Latest dispatches")[2].partition("Upcoming tasks")[0]
    assert f"{held.pk} · Second" in open_one
    assert latest.index(str(held.pk)) < latest.index(str(taken.pk))
    assert "Succeeded" in latest


class TestCache:
    def test_size_and_reach_of_the_queue(self, alice: Executor, admin_client: Client) -> None:
        """As the next pull has it, whatever was kept before."""
        assert "The queue has 0 tasks that are due before" in page_of(admin_client, alice)
        task = factories.once_task(alice)
        assert "The queue has 1 task that is due before" in page_of(admin_client, alice)
        tasks.update_task(task=task, changes={"status": "paused"}, actor="test")
        assert "The queue has 0 tasks that are due before" in page_of(admin_client, alice)

    def test_rebuild_makes_it_anew_in_every_process(
        self, alice: Executor, admin_client: Client
    ) -> None:
        """A task that no signal announced is found, wherever the next pull is served."""
        task = factories.once_task(alice, status="paused")
        assert isinstance(callback.take_next(alice), pull.Nothing)
        kept, plan = queue.entries[alice.pk], queue.plans[alice.pk]
        OnceTask.objects.update(status="active")
        rebuild(admin_client, alice)
        # What another process holds of its own.
        queue.entries[alice.pk], queue.plans[alice.pk] = kept, plan
        taken = callback.taken(alice)
        assert taken.task == task.pk

    def test_rebuild_shows_what_it_did_and_leaves_the_plan_as_it_is(
        self, alice: Executor, admin_client: Client, frozen_clock: FrozenClock
    ) -> None:
        factories.once_task(alice)
        callback.take_next(alice)
        frozen_clock.advance(minutes=5)
        before = checksum()

        answer = rebuild(admin_client, alice)

        assert answer.headers["Location"] == reverse(
            "admin:dispatch_executor_change", args=[alice.pk]
        )
        told = JournalEntry.objects.filter(event="queue_rebuilt")
        assert list(told.values_list("subject_id", "executor", "actor")) == [
            (alice.pk, alice.name, "admin:admin")
        ]
        told.delete()
        # Of her alone, not of her groups.
        Executor.objects.filter(pk=alice.pk).update(plan_version=F("plan_version") - 1)
        assert checksum() == before

    def test_rebuild_is_for_those_who_may_plan_and_by_post(
        self, alice: Executor, admin_client: Client, role_client: Callable[[str], Client]
    ) -> None:
        url = reverse("admin:dispatch_executor_rebuild", args=[alice.pk])
        assert admin_client.get(url).status_code == 405
        assert rebuild(role_client("viewer"), alice).status_code == 403
        assert "Rebuild" not in page_of(role_client("viewer"), alice)
        assert rebuild(role_client("operator"), alice).status_code == 302
        assert rebuild(admin_client, Executor.objects.get(name="gid_a")).status_code == 403


class TestScope:
    """Of an operator who sees alice, and not the groups that she is in."""

    def test_titles_of_others_are_not_shown(self, alice: Executor, limited: Any) -> None:
        """Their places in the queue are, so that the order makes sense."""
        hidden = factories.once_task(Executor.objects.get(name="gid_a"), "Secret", priority=9)
        factories.once_task(alice, "Her own")

        url = reverse("admin:dispatch_executor_change", args=[alice.pk])
        answer = limited(alice).get(url)

        text = text_of(answer)
        assert "Secret" not in answer.content.decode()
        assert "gid_a" not in text
        text = upcoming(text)
        assert text.index("not yours to see") < text.index("Her own")
        page = reverse("admin:dispatch_oncetask_change", args=[hidden.pk])
        assert page not in answer.content.decode()

    def test_executors_outside_are_not_there(self, alice: Executor, limited: Any) -> None:
        bob = factories.user("uid_bob")
        assert rebuild(limited(alice), bob).status_code == 403
