"""An open dispatch goes from one user to another, at no cost to anybody; whoever had one is asked
again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.common.errors import Conflict, PlatformError
from apps.dispatch.errors import Closed
from apps.dispatch.models import Dispatch, OnceTask, OperatorScope, Stock
from apps.dispatch.services import ending, executors, tasks
from apps.dispatch.services.handing import ask_again, hand_over
from apps.dispatch.services.invariants import CHECKS
from apps.journal.models import JournalEntry
from tests import callback, factories
from tests.integration.dispatch import housekeeping
from tests.pages import form_of, text_of

LIST = "/admin/dispatch/dispatch/"
WHO = ["uid_ann", "uid_bob", "uid_eve"]


def audit() -> None:
    housekeeping.audit()
    housekeeping.audit_journal()
    assert [breach for check in CHECKS for breach in check.run(1000).breaches] == []


@pytest.mark.both
@pytest.mark.django_db
def test_place_goes_over_and_the_other_pulls_it() -> None:
    task = factories.once_task(factories.group("gid_all", WHO), mode="multi", dispatch_times=1)
    ann, bob, _eve = map(factories.member, WHO)
    first = callback.taken(ann)
    given = hand_over(dispatch=first, to=bob, actor="admin:olga", reason="ill")
    assert callback.taken(bob).pk == given.pk
    first.refresh_from_db()
    assert (first.state, first.holds_stock, given.holds_stock) == ("released", False, True)
    assert Stock.objects.get(task=task.pk).handed == 1
    entries = JournalEntry.objects.filter(reason="ill").order_by("id")
    assert [(each.event, each.executor, each.reason) for each in entries] == [
        ("handed_over", "uid_ann", "ill"),
        ("handed_out", "uid_bob", "ill"),
    ]
    assert entries[0].data == {"to": "uid_bob"}
    audit()
    with pytest.raises(Closed):
        callback.call_back(executor=ann, number=first.pk, outcome="succeeded")
    with pytest.raises(Closed):
        hand_over(dispatch=first, to=bob, actor="admin:olga")
    callback.end(given)
    housekeeping.audit()


@pytest.mark.django_db
def test_refusal_says_what_stands_against_it_and_changes_nothing(
    subtests: pytest.Subtests,
) -> None:
    group = factories.group("gid_all", WHO)
    factories.once_task(group, mode="multi", dispatch_times=3)
    ann, bob, eve = map(factories.member, WHO)
    done = callback.finish(eve)
    first = callback.taken(ann)
    stranger = factories.user("uid_stranger")
    off = factories.user("uid_off")
    executors.change_members(group=group, add=["uid_off"], actor="admin:o")
    executors.update_executor(
        executor=off, changes={"enabled": False}, version=off.version, actor="admin:o"
    )
    factories.once_task(bob, priority=1)
    callback.taken(bob)
    for to, words in (
        (ann, "uid_ann has dispatch"),
        (bob, "uid_bob holds another task"),
        (eve, f"uid_eve already had it as dispatch {done.pk}"),
        (stranger, "uid_stranger does not belong to it"),
        (off, "uid_off is disabled"),
        (group, "is a group"),
    ):
        with subtests.test(to=to.name), pytest.raises(PlatformError, match=words):
            hand_over(dispatch=first, to=to, actor="admin:o")
    first.refresh_from_db()
    assert first.is_open
    audit()


@pytest.mark.both
@pytest.mark.django_db
def test_who_tries_again_keeps_the_own_place() -> None:
    """Otherwise two places would be held by one."""
    task = factories.once_task(
        factories.group("gid_all", WHO),
        mode="multi",
        dispatch_times=2,
        on_failure="retry_same",
    )
    ann, bob, _eve = map(factories.member, WHO)
    first = callback.taken(ann)
    callback.finish(bob, "failed")
    assert Stock.objects.get(task=task.pk).handed == 2
    hand_over(dispatch=first, to=bob, actor="admin:o")
    assert Stock.objects.get(task=task.pk).handed == 1
    audit()


@pytest.mark.django_db
def test_paused_task_is_not_given_on() -> None:
    task = factories.once_task(factories.group("gid_all", WHO))
    ann, bob, _eve = map(factories.member, WHO)
    first = callback.taken(ann)
    tasks.update_task(task=task, changes={"status": "paused"}, actor="admin:o")
    with pytest.raises(Conflict, match="paused"):
        hand_over(dispatch=first, to=bob, actor="admin:o")


@pytest.mark.mariadb
@pytest.mark.django_db(transaction=True)
def test_hand_overs_race_with_each_other_callbacks_and_pulls(
    racers: Any, subtests: pytest.Subtests
) -> None:
    """One of all wins; never two open ones of one place, and the quota is exact."""
    group = factories.group("gid_all", WHO)
    ann, bob, eve = map(factories.member, WHO)
    for number in range(8):
        task = factories.once_task(group, mode="multi", dispatch_times=1)
        first = callback.taken(ann)

        def give(to: Any, first: Dispatch = first) -> Any:
            return hand_over(dispatch=first, to=to, actor="admin:o")

        def give_back(first: Dispatch = first) -> Any:
            return callback.release(executor=ann, number=first.pk)

        def finish(first: Dispatch = first) -> Any:
            return callback.call_back(executor=ann, number=first.pk, outcome="succeeded")

        calls = [
            [lambda: give(bob), lambda: give(eve)],
            [lambda: give(bob), finish],
            [lambda: give(bob), lambda: callback.take_next(bob)],
            [lambda: give(bob), give_back],
        ][number % 4]
        race = racers(calls * 3)
        with subtests.test(number=number):
            assert all(isinstance(error, PlatformError) for error in race.errors), race.errors
            rows = Dispatch.objects.filter(task=task.pk)
            assert rows.filter(holds_stock=True).count() <= 1
            assert Stock.objects.get(task=task.pk).handed == rows.filter(holds_stock=True).count()
        audit()
        for person in (ann, bob, eve):
            if (left := Dispatch.objects.open_of(person.pk)) is not None:
                callback.end(left)
        tasks.delete_task(task=OnceTask.objects.get(pk=task.pk), actor="admin:o")
    audit()


# --- asking again ---------------------------------------------------------------------------------
@pytest.mark.both
@pytest.mark.django_db
def test_who_is_asked_again_keeps_the_place(subtests: pytest.Subtests) -> None:
    """However it ended: the quota is as before, and others get nothing of it."""
    group = factories.group("gid_all", WHO)
    ann, bob, _eve = map(factories.member, WHO)
    for outcome, how in (
        ("succeeded", {}),
        ("failed", {}),
        ("failed", {"on_failure": "retry_same"}),
    ):
        with subtests.test(outcome, **how):
            task = factories.once_task(group, mode="multi", dispatch_times=1, max_rounds=1, **how)
            first = callback.finish(ann, outcome)
            given = ask_again(dispatch=first, actor="admin:o", reason="blurred")
            assert housekeeping.is_idle(bob)
            assert callback.taken(ann).pk == given.pk
            first.refresh_from_db()
            assert (first.state, first.holds_stock, given.round) == (outcome, False, 1)
            assert Stock.objects.get(task=task.pk).handed == 1
            [entry] = JournalEntry.objects.filter(event="asked_again", subject_id=first.pk)
            assert (entry.actor, entry.reason) == ("admin:o", "blurred")
            assert entry.data == {"asked_as": str(given.pk)}
            audit()
            with pytest.raises(Conflict, match=f"holds it as dispatch {given.pk}"):
                ask_again(dispatch=first, actor="admin:o")
            # The first answer can still be repeated.
            callback.call_back(executor=ann, number=first.pk, outcome=outcome)
            callback.end(given)
            with pytest.raises(Conflict, match=f"again as dispatch {given.pk}"):
                ask_again(dispatch=first, actor="admin:o")
            audit()
            tasks.delete_task(task=OnceTask.objects.get(pk=task.pk), actor="admin:o")


@pytest.mark.both
@pytest.mark.django_db
def test_asking_again_is_refused_with_the_reason() -> None:
    group = factories.group("gid_all", WHO)
    factories.once_task(group, mode="multi", dispatch_times=1)
    ann, bob, _eve = map(factories.member, WHO)
    first = callback.taken(ann)
    callback.release(executor=ann, number=first.pk)
    second = ask_again(dispatch=first, actor="admin:o")
    callback.release(executor=ann, number=second.pk)
    done = callback.finish(bob)
    with pytest.raises(Conflict, match="quota of 1 is used up"):
        ask_again(dispatch=second, actor="admin:o")
    factories.once_task(bob, priority=1)
    other = callback.taken(bob)
    with pytest.raises(Conflict, match=f"holds another task, dispatch {other.pk}"):
        ask_again(dispatch=done, actor="admin:o")
    ending.cancel(dispatch=other, actor="admin:o", reason="x")
    with pytest.raises(Conflict, match="already had it"):
        ask_again(dispatch=other, actor="admin:o")
    audit()


@pytest.mark.django_db
def test_who_gives_back_what_was_asked_again_may_have_it_after_the_lease() -> None:
    """Also from a process that had dropped it from the queue of that user."""
    factories.once_task(factories.user("uid_ann"), lease_seconds=60)
    ann = factories.member("uid_ann")
    first = callback.finish(ann)
    assert housekeeping.is_idle(ann)
    given = ask_again(dispatch=first, actor="admin:o")
    callback.release(executor=ann, number=given.pk)
    assert housekeeping.is_idle(ann)
    Dispatch.objects.filter(pk=given.pk).update(
        finished_at=given.dispatched_at - timedelta(seconds=61)
    )
    assert not housekeeping.is_idle(ann)


@pytest.mark.mariadb
@pytest.mark.django_db(transaction=True)
def test_asking_again_races_with_itself_and_pulls(racers: Any, subtests: pytest.Subtests) -> None:
    """One new dispatch at most, and the quota is exact, whoever is quicker."""
    group = factories.group("gid_all", WHO)
    ann, bob, eve = map(factories.member, WHO)
    for number, end in enumerate(("succeeded", "released", "succeeded", "released")):
        task = factories.once_task(group, mode="multi", dispatch_times=1)
        first = callback.taken(ann)
        if end == "released":
            callback.release(executor=ann, number=first.pk)
        else:
            callback.end(first)

        def ask(first: Dispatch = first) -> Any:
            return ask_again(dispatch=first, actor="admin:o")

        race = racers([ask, ask, lambda: callback.take_next(bob), lambda: callback.take_next(eve)])
        with subtests.test(number=number):
            assert all(isinstance(error, PlatformError) for error in race.errors), race.errors
            rows = Dispatch.objects.filter(task=task.pk)
            assert rows.filter(open_for__isnull=False).count() == 1
            assert rows.filter(holds_stock=True).count() == 1
            assert Stock.objects.get(task=task.pk).handed == 1
        audit()
        for person in (ann, bob, eve):
            if (left := Dispatch.objects.open_of(person.pk)) is not None:
                callback.end(left)
        tasks.delete_task(task=OnceTask.objects.get(pk=task.pk), actor="admin:o")


# --- the page and the API -------------------------------------------------------------------------
@pytest.mark.django_db
def test_page_offers_who_can_and_says_why_others_cannot(
    role_client: Any, role_user: Any, api: Any
) -> None:
    group = factories.group("gid_all", WHO)
    factories.once_task(group, "Count", mode="multi", dispatch_times=2)
    ann, bob, eve = map(factories.member, WHO)
    first = callback.taken(ann)
    factories.once_task(bob, priority=1)
    callback.taken(bob)
    factories.user("uid_stranger")
    client = role_client("operator")
    dispatch = client.get(f"{LIST}{first.pk}/change/")
    [link] = [each for each in dispatch.context["object_buttons"] if str(each.text) == "Give to…"]
    page = client.get(link.url)
    text = text_of(page)
    assert "uid_ann has had it since" in text
    assert "Give to uid_eve" in text
    assert "uid_bob holds a task until" in text and "a pull returns" not in text
    assert "Give to uid_bob" not in text
    assert "uid_stranger" not in text
    assert "does not belong to it" in text_of(client.get(link.url, {"q": "stranger"}))
    answer = client.post(link.url, {"to": "uid_eve", "reason": "ill"}, follow=True)
    assert "Count was given to uid_eve." in text_of(answer)
    second = Dispatch.objects.open_of(eve.pk)
    assert second is not None

    # Who sees one side only is offered nobody else, whatever is sent.
    OperatorScope.objects.create(operator=role_user("operator"), executor=eve)
    url = f"{LIST}{second.pk}/give/"
    assert "uid_ann" not in text_of(client.get(url))
    client.post(url, {"to": "uid_ann"})
    assert Dispatch.objects.get(pk=second.pk).is_open
    assert client.get(link.url).status_code == 404

    address, to_bob = f"/api/v1/dispatches/{second.pk}/hand-over/", {"executor": "uid_bob"}
    refused = api.post(address, to_bob)
    assert (refused.status_code, "holds another task" in refused.json()["detail"]) == (409, True)
    callback.end(Dispatch.objects.open_of(bob.pk))
    given = api.post(address, to_bob).json()
    assert (given["state"], given["executor"]) == ("open", "uid_bob")


@pytest.mark.django_db
def test_page_and_api_ask_again(role_client: Any, api: Any) -> None:
    factories.once_task(factories.user("uid_ann"))
    ann, client = factories.member("uid_ann"), role_client("operator")
    first = callback.finish(ann)
    page = client.get(f"{LIST}{first.pk}/change/")
    assert "What happened" in text_of(page)
    [button] = page.context["object_buttons"]
    assert str(button.text) == "Ask again…"
    confirm = client.get(button.url)
    assert "the present result stays readable" in text_of(confirm)
    sent = {**form_of(confirm, "reason"), "reason": "blurred"}
    answer = client.post(f"{LIST}act/ask_again/", sent, follow=True)
    assert "1 person asked again." in text_of(answer)
    second = Dispatch.objects.open_of(ann.pk)
    assert second is not None
    callback.end(second)
    # What became of the rounds before it stands there, too; their facts stay with them.
    shown = text_of(client.get(f"{LIST}{second.pk}/change/"))
    happened = shown[shown.index("What happened") :]
    places = [
        happened.index(word) for word in ("Handed out", "Succeeded", "Asked again", "blurred")
    ]
    assert places == sorted(places)
    assert "Try 2" in shown
    given = api.post(f"/api/v1/dispatches/{second.pk}/ask-again/", {"reason": "dark"}).json()
    assert (given["state"], given["executor"], given["round"]) == ("open", "uid_ann", 2)
    refused = api.post(f"/api/v1/dispatches/{second.pk}/ask-again/", {})
    assert refused.status_code == 409
    assert f"holds it as dispatch {given['number']}" in refused.json()["detail"]


@pytest.mark.django_db
def test_statements_of_the_page_do_not_grow_with_people(admin_client: Any) -> None:
    people = [f"uid_{number:02}" for number in range(30)]
    group = factories.group("gid_all", people[:3])
    factories.once_task(group, mode="multi", dispatch_times=3)
    first = callback.taken(factories.member("uid_00"))
    counts = []
    for names in (people[:3], people):
        executors.change_members(group=group, add=names, actor="admin:o")
        with CaptureQueriesContext(connection) as found:
            assert "uid_02" in text_of(admin_client.get(f"{LIST}{first.pk}/give/"))
        counts.append(len(found))
    assert counts[0] == counts[1]


@pytest.mark.django_db
def test_page_of_a_dispatch_says_itself_in_a_sentence(role_client: Any, role_user: Any) -> None:
    group = factories.group("gid_all", WHO)
    factories.once_task(group, "Count {x} <b>", mode="multi", dispatch_times=2)
    ann, bob, _eve = map(factories.member, WHO)
    first, client = callback.taken(ann), role_client("operator")
    assert "uid_ann has had Count {x} <b> for" in text_of(client.get(f"{LIST}{first.pk}/change/"))
    callback.end(first)
    callback.finish(bob, "failed")
    text = text_of(client.get(f"{LIST}{first.pk}/change/"))
    assert "uid_ann did Count {x} <b> in" in text
    assert "before its deadline" in text
    assert "uid_bob · failed" in text
    OperatorScope.objects.create(operator=role_user("operator"), executor=ann)
    assert "uid_bob" not in text_of(client.get(f"{LIST}{first.pk}/change/"))
