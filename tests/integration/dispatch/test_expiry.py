"""The sweep that ends what is past its deadline: each once, by its policy, none blocking others."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.common import clock
from apps.common.errors import Conflict
from apps.dispatch.models import Dispatch, Executor, OnceTask, Stock
from apps.dispatch.services import ending, expiry
from apps.dispatch.services.find import existing_dispatch
from apps.dispatch.services.invariants import CHECKS
from apps.journal.models import JournalEntry
from tests import callback, factories
from tests.callback import take_next, taken
from tests.clients import JsonClient
from tests.pages import text_of
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def expire() -> int:
    return expiry.expire_due(until=clock.now() + timedelta(seconds=1))


def hand_out_to(count: int, **fields: Any) -> list[Dispatch]:
    """One task each for so many users, all taken, with a lease of 60 s."""
    people = [factories.user(f"uid_{n}") for n in range(count)]
    for person in people:
        factories.once_task(person, lease_seconds=60, **fields)
    return [taken(person) for person in people]


def orphan(dispatch: Dispatch) -> Dispatch:
    """Somebody has removed its task from the database by hand."""
    OnceTask.objects.filter(pk=dispatch.task).delete()
    return dispatch


def test_an_end_by_the_sweep_is_stored_as_any_other(number: int, frozen_clock: Any) -> None:
    frozen_clock.advance(seconds=75)
    expire()

    ended = Dispatch.objects.get(pk=number)
    assert (ended.open_for, ended.holds_stock) == (None, False)
    assert (ended.finished_at, ended.result, ended.message) == (frozen_clock.instant, None, "")
    entry = JournalEntry.objects.timeline("dispatch", number).last()
    assert entry is not None
    assert (entry.event, entry.from_state, entry.to_state) == ("expired", "open", "expired")
    assert (entry.executor, entry.attempt, entry.run_ms) == ("uid_alice", 1, 75_000)
    assert (entry.actor, entry.reason) == ("", ending.OVERDUE)


def test_one_that_is_given_more_time_just_then_goes_on(
    alice: Executor, number: int, frozen_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S0.28: an answered extension is not undone by a sweep that had read before it."""
    read = expiry._due

    def overtaken(*args: Any) -> list[Dispatch]:
        block = read(*args)
        callback.extend(executor=alice, number=number, seconds=60)
        return block

    monkeypatch.setattr(expiry, "_due", overtaken)
    frozen_clock.advance(seconds=61)
    assert expire() == 0
    assert Dispatch.objects.get(pk=number).state == "open"
    assert Stock.objects.get().handed == 1


def test_many_of_one_occurrence_return_their_stock_together(frozen_clock: Any) -> None:
    """I1, I11: beside some that keep it and one that is called back in time."""
    names = [f"uid_{n}" for n in range(4)]
    everybody = factories.group("gid_all", names)
    shared = factories.once_task(
        everybody, mode="multi", dispatch_times=4, lease_seconds=60, priority=1
    )
    numbers = [taken(factories.member(name)).pk for name in names]
    callback.call_back(executor=factories.member("uid_0"), number=numbers[0], outcome="succeeded")
    kept = factories.rotation(factories.member("uid_0"), lease_seconds=60, on_expiry="keep")
    taken(factories.member("uid_0"))
    frozen_clock.advance(seconds=61)

    assert expire() == 4

    assert Stock.objects.get(source="once", task=shared.pk).handed == 1
    assert Stock.objects.get(source="rotate", task=kept.pk).handed == 1
    assert not [breach for check in CHECKS for breach in check.run(100).breaches]


def test_a_stock_that_a_person_has_lowered_stays_at_zero(frozen_clock: Any) -> None:
    hand_out_to(2)
    Stock.objects.update(handed=0)
    frozen_clock.advance(seconds=61)
    assert expire() == 2
    assert set(Stock.objects.values_list("handed", flat=True)) == {0}


def test_sixty_take_as_many_statements_as_one(frozen_clock: Any) -> None:
    """Each of a user and a task of its own."""
    counts = []
    for count in (1, 60):
        Executor.objects.filter(name="uid_0").update(name=f"uid_before_{count}")
        hand_out_to(count)
        frozen_clock.advance(seconds=61)
        counts.append(len(sent_by(expire)))
        assert not Dispatch.objects.filter(state="open").exists()

    assert counts[0] == counts[1]


class TestTaskGone:
    def test_the_others_expire_whatever_their_order(
        self, frozen_clock: Any, settings: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        """I11, also when a whole block can not be ended."""
        settings.EXPIRY_BATCH = 2
        first, second, third, *_rest = hand_out_to(6)
        for each in (first, second, third):
            orphan(each)
        frozen_clock.advance(seconds=61)

        with caplog.at_level(logging.ERROR):
            assert expire() == 3

        still_open = Dispatch.objects.filter(state="open").order_by("pk")
        assert [each.pk for each in still_open] == [first.pk, second.pk, third.pk]
        [line] = [record.getMessage() for record in caplog.records]
        assert f"{first.pk} ({first.task_label}), {second.pk} (" in line
        assert "cancel them, or restore the tasks" in line

    def test_it_is_logged_once_a_minute(
        self, number: int, frozen_clock: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        orphan(Dispatch.objects.get(pk=number))
        for seconds in (61, 5, 50, 6):
            frozen_clock.advance(seconds=seconds)
            expire()
        assert len(caplog.records) == 2

    def test_its_user_learns_what_keeps_it(
        self, alice: Executor, number: int, frozen_clock: Any
    ) -> None:
        """A pull and a callback that need the policy are refused; cancelling ends it."""
        orphan(Dispatch.objects.get(pk=number))
        frozen_clock.advance(seconds=61)
        for call in (
            lambda: take_next(alice),
            lambda: callback.call_back(executor=alice, number=number, outcome="failed"),
        ):
            with pytest.raises(Conflict, match=f"Dispatch {number} cannot end .* cancel the"):
                call()

        ending.cancel(dispatch=existing_dispatch(number), actor="admin:olga", reason="gone")
        assert not isinstance(take_next(alice), Dispatch)

    def test_the_audit_names_it(self, frozen_clock: Any) -> None:
        """I11, I63"""
        lost, _kept = hand_out_to(2)
        orphan(lost)
        found = [breach for check in CHECKS for breach in check.run(100).breaches]
        assert [(breach.invariant, breach.subject) for breach in found] == [
            ("I11", f"dispatch {lost.pk}"),
            ("I63", f"once task {lost.task}"),
        ]
        assert f"its task {lost.task_label} is gone" in found[0].text


@pytest.mark.parametrize("later", [0, 3600], ids=["before the deadline", "after it"])
def test_every_page_and_answer_about_the_user_of_a_removed_task_is_there(
    later: int,
    admin_client: Client,
    make_key: Callable[..., str],
    frozen_clock: Any,
    subtests: pytest.Subtests,
) -> None:
    """Those that say what became of it are needed most."""
    [dispatch] = hand_out_to(1)
    other = factories.once_task(factories.member("uid_0"), "Next")
    orphan(dispatch)
    frozen_clock.advance(seconds=later)
    user, number = f"/admin/dispatch/executor/{dispatch.executor_id}", dispatch.pk
    why = {"executor": "uid_0", "task": f"once:{other.pk}"}
    pages: list[tuple[str, dict[str, Any], str]] = [
        (f"{user}/change/", {}, "Its task is gone, so it cannot expire; cancel it."),
        (f"{user}/why/", {}, "open dispatch"),
        ("/admin/dispatch/executor/explain/", why, "whose task is gone from the database"),
        (f"/admin/dispatch/dispatch/{number}/change/", {}, str(number)),
        ("/admin/dispatch/dispatch/", {}, "uid_0"),
        (f"/admin/dispatch/oncetask/{other.pk}/change/", {}, "Next"),
        ("/admin/", {}, "Dispatches open"),
    ]
    for path, query, said in pages:
        with subtests.test(path):
            page = admin_client.get(path, query)
            assert (page.status_code, said in text_of(page)) == (200, True)
    api = JsonClient(make_key())
    asked: list[tuple[str, dict[str, Any]]] = [
        ("executors/uid_0/preview/", {}),
        ("explain/", {"executor": "uid_0"}),
        ("explain/", {"executor": "uid_0", "source": "once", "task": other.pk}),
        (f"dispatches/{number}/", {}),
        ("dispatches/", {}),
    ]
    for path, query in asked:
        with subtests.test(path, query=query):
            answer = api.get(f"/api/v1/{path}", **query)
            assert answer.status_code == 200
            if path == "explain/" and "task" in query:
                [reason] = answer.json()["reasons"]
                assert (reason["code"], reason["until"]) == ("in_flight", None)
    with subtests.test("what if"):
        changed = api.post(f"/api/v1/once-tasks/{other.pk}/what-if/", {"priority": 9})
        assert changed.status_code == 200
    ending.cancel(dispatch=dispatch, actor=factories.OPERATOR, reason="Its task is gone")
    assert taken(factories.member("uid_0")).task == other.pk


def test_boundary_of_the_deadline(number: int, frozen_clock: Any) -> None:
    """S0.28, I11: not before the deadline; at it, once."""
    frozen_clock.advance(seconds=59.999)
    assert expire() == 0
    frozen_clock.advance(seconds=0.001)
    assert expire() == 1
    assert expire() == 0
    assert Dispatch.objects.get(pk=number).state == "expired"
