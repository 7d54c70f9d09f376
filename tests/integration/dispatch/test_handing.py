"""An open dispatch goes from one user to another, at no cost to anybody."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.common.errors import Conflict, PlatformError
from apps.dispatch.errors import Closed
from apps.dispatch.models import Dispatch, OnceTask, OperatorScope, Stock
from apps.dispatch.services import executors, tasks
from apps.dispatch.services.handing import hand_over
from apps.journal.models import JournalEntry
from tests import callback, factories
from tests.integration.dispatch import housekeeping
from tests.pages import text_of

LIST = "/admin/dispatch/dispatch/"
WHO = ["uid_ann", "uid_bob", "uid_eve"]


def audit() -> None:
    housekeeping.audit()
    housekeeping.audit_journal()


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
    assert "uid_bob holds another task" in text
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
    assert client.get(link.url).status_code == 302

    address, to_bob = f"/api/v1/dispatches/{second.pk}/hand-over/", {"executor": "uid_bob"}
    refused = api.post(address, to_bob)
    assert (refused.status_code, "holds another task" in refused.json()["detail"]) == (409, True)
    callback.end(Dispatch.objects.open_of(bob.pk))
    given = api.post(address, to_bob).json()
    assert (given["state"], given["executor"]) == ("open", "uid_bob")


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
