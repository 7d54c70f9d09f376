"""Dispatches in the admin: S0.26, S0.28, I55, I58, and nothing that a role may not see."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from apps.dispatch.models import Dispatch, Executor, OperatorScope, Stock
from apps.dispatch.services import callback, pull
from apps.journal.models import JournalEntry
from tests import factories
from tests.frozen import FrozenClock
from tests.pages import form_of, inline_code_of, text_of

LIST = "/admin/dispatch/dispatch/"


def hand_out(count: int, **fields: Any) -> list[Dispatch]:
    """So many open dispatches of one task, each to a user of its own."""
    names = [f"uid_{n:03}" for n in range(count)]
    group = factories.group("gid_shops", members=names)
    factories.once_task(group, mode="multi", dispatch_times=count, **fields)
    made = [pull.take_next(factories.member(name)) for name in names]
    assert all(isinstance(dispatch, Dispatch) for dispatch in made)
    return made  # type: ignore[return-value]


def act(client: Client, name: str, rows: list[Dispatch], **data: str) -> Any:
    ids = ",".join(str(row.pk) for row in rows)
    return client.post(f"{LIST}act/{name}/", {"ids": ids, "reason": "Shop closed", **data})


def page_of(client: Client, dispatch: Dispatch) -> Any:
    return client.get(reverse("admin:dispatch_dispatch_change", args=[dispatch.pk]))


def states() -> list[str]:
    return list(Dispatch.objects.order_by("pk").values_list("state", flat=True))


# --- the list ---------------------------------------------------------------------------------
def test_list_of_fifty_rows_takes_as_many_queries_as_one_of_two(
    admin_client: Client, django_assert_max_num_queries: Any
) -> None:
    hand_out(51)
    admin_client.get(LIST)
    # Session, user, permissions of nobody, and the rows with their executors, read once or twice.
    with django_assert_max_num_queries(5) as few:
        admin_client.get(LIST, {"executor": "uid_001"})
    with django_assert_max_num_queries(len(few)):
        page = admin_client.get(LIST)
    assert len(page.context["cl"].result_list) == 50
    assert not [query["sql"] for query in few.captured_queries if "COUNT(" in query["sql"]]
    assert not [
        query["sql"]
        for query in few.captured_queries
        if connection.ops.quote_name("result") in query["sql"]
    ]


def test_list_is_paged_without_a_count(admin_client: Client) -> None:
    hand_out(51)
    first = admin_client.get(LIST)
    assert "Next" in text_of(first)
    assert "51" not in text_of(first).split("Previous")[1]
    second = admin_client.get(LIST, {"p": "2"})
    assert len(second.context["cl"].result_list) == 1


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"executor": "uid_000"}, [0]),
        ({"executor": "gid_shops"}, [0, 1, 2]),
        ({"executor": "uid_nobody"}, []),
        ({"state": "open"}, [1, 2]),
        ({"state": "succeeded"}, [0]),
        ({"source": "once"}, [0, 1, 2]),
        ({"source": "rotate"}, []),
        ({"task": "999"}, []),
        ({"from_day": "2026-03-02", "to_day": "2026-03-02"}, [0, 1, 2]),
        ({"from_day": "2026-03-03"}, []),
        ({"to_day": "2026-03-01"}, []),
        ({"q": "uid_002"}, [2]),
        ({"q": "17"}, []),
        ({"q": "Check"}, []),
        ({"q": "two words"}, []),
    ],
)
def test_filters_and_search_compare_whole_values(
    admin_client: Client, frozen_clock: FrozenClock, query: dict[str, str], found: list[int]
) -> None:
    made = hand_out(3)
    callback.call_back(executor=made[0].executor, number=made[0].pk, outcome="succeeded")
    page = admin_client.get(LIST, query)
    shown = {row.pk for row in page.context["cl"].result_list}
    assert shown == {made[position].pk for position in found}


def test_search_by_number_and_filter_by_task_find_the_row(admin_client: Client) -> None:
    (dispatch,) = hand_out(1)
    for query in ({"q": str(dispatch.pk)}, {"task": str(dispatch.task)}):
        (row,) = admin_client.get(LIST, query).context["cl"].result_list
        assert row == dispatch


def test_wrong_value_in_a_filter_is_told_and_finds_nothing(admin_client: Client) -> None:
    hand_out(1)
    page = admin_client.get(LIST, {"executor": "uid á"})
    assert "is not a name" in text_of(page)
    assert len(page.context["cl"].result_list) == 0


# --- the page of one --------------------------------------------------------------------------
def test_page_tells_the_story_of_the_dispatch(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    (dispatch,) = hand_out(1, params={"shop": "S1", "password": "hunter2"})
    frozen_clock.advance(seconds=90)
    callback.call_back(
        executor=dispatch.executor,
        number=dispatch.pk,
        outcome="failed",
        result={"token": "hunter3"},
        message="door was shut",
    )
    text = text_of(page_of(admin_client, dispatch))
    assert '"shop": "S1"' in text
    assert "hunter" not in text
    assert text.index("Handed out by uid_000") < text.index("Failed by uid_000")
    assert "1 min 30 s" in text
    assert "door was shut" in text


@pytest.mark.parametrize("role", ["viewer", "operator", "configurer"])
def test_params_and_results_are_absent_for_roles_that_may_not_see_them(
    role_client: Any, role: str
) -> None:
    (dispatch,) = hand_out(1, params={"shop": "Main Street 5"})
    callback.call_back(
        executor=dispatch.executor, number=dispatch.pk, outcome="succeeded", result={"x": "seen"}
    )
    text = text_of(page_of(role_client(role), dispatch))
    assert ("Main Street 5" in text) is (role == "configurer")
    assert ("seen" in text) is (role == "configurer")


@pytest.mark.parametrize(
    "evil",
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "{{7*7}}",
        "javascript:alert(1)",
    ],
)
def test_foreign_text_is_shown_as_text_and_runs_nowhere(admin_client: Client, evil: str) -> None:
    (dispatch,) = hand_out(1, title=evil, params={evil: evil})
    callback.call_back(
        executor=dispatch.executor,
        number=dispatch.pk,
        outcome="failed",
        result={evil: evil},
        message=evil,
    )
    for page in (admin_client.get(LIST), page_of(admin_client, dispatch)):
        assert inline_code_of(page) == []
        assert evil in text_of(page).replace('\\"', '"')


def test_text_that_turns_around_or_steers_a_terminal_is_spelled_out(admin_client: Client) -> None:
    (dispatch,) = hand_out(1, title="abc\u202egnp.exe \x1b[31m")
    for page in (admin_client.get(LIST), page_of(admin_client, dispatch)):
        shown = text_of(page)
        assert "abc\\u202egnp.exe \\u001b[31m" in shown
        body = page.content.decode().split("<title>")[1].split("</title>")[1]
        assert "\x1b" not in body


def test_huge_result_is_cut_and_says_so(admin_client: Client) -> None:
    (dispatch,) = hand_out(1)
    callback.call_back(
        executor=dispatch.executor,
        number=dispatch.pk,
        outcome="succeeded",
        result={"text": "x" * 200_000},
    )
    page = page_of(admin_client, dispatch)
    assert len(page.content) < 100_000
    assert "more characters" in text_of(page)


@pytest.mark.parametrize("view", ["add/", "{pk}/delete/"])
def test_nobody_adds_or_deletes_dispatches(admin_client: Client, view: str) -> None:
    (dispatch,) = hand_out(1)
    assert admin_client.get(LIST + view.format(pk=dispatch.pk)).status_code == 403
    changed = admin_client.post(f"{LIST}{dispatch.pk}/change/", {"state": "failed"})
    assert changed.status_code == 403
    assert states() == ["open"]


# --- stepping in ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "state", "handed"),
    [("release", "released", 0), ("expire", "expired", 0), ("cancel", "cancelled", 0)],
)
def test_action_ends_the_dispatch_with_its_reason_in_one_journal_entry(
    role_client: Any, name: str, state: str, handed: int
) -> None:
    """I55: who, when, from, to and why, once, in the transaction of the change."""
    (dispatch,) = hand_out(1)
    before = JournalEntry.objects.count()
    answer = act(role_client("operator"), name, [dispatch])
    assert answer.status_code == 302
    dispatch.refresh_from_db()
    assert dispatch.state == state
    assert Stock.objects.get().handed == handed
    entry = JournalEntry.objects.latest("id")
    assert JournalEntry.objects.count() == before + 1
    assert (entry.actor, entry.reason) == ("admin:operator", "Shop closed")
    assert (entry.from_state, entry.to_state) == ("open", state)


def test_list_action_leads_over_a_page_that_asks_for_the_reason(admin_client: Client) -> None:
    made = hand_out(3)
    selected = {"_selected_action": [str(row.pk) for row in made[:2]], "index": "0"}
    confirm = admin_client.post(LIST, {"action": "cancel", **selected})
    assert confirm.status_code == 200
    assert states() == ["open"] * 3
    assert "uid_000" in text_of(confirm)
    assert "uid_002" not in text_of(confirm)
    form = form_of(confirm, "reason")
    empty = admin_client.post(f"{LIST}act/cancel/", form)
    assert "This field is required" in text_of(empty)
    assert states() == ["open"] * 3
    done = admin_client.post(f"{LIST}act/cancel/", {**form, "reason": "Storm"})
    assert done.status_code == 302
    assert states() == ["cancelled", "cancelled", "open"]
    assert "2 rows done" in text_of(admin_client.get(done["Location"]))


def test_rows_that_moved_meanwhile_are_skipped_each_with_its_why(admin_client: Client) -> None:
    """I58: per-row compare and set, done and skipped told, the others untouched."""
    made = hand_out(4)
    callback.call_back(executor=made[0].executor, number=made[0].pk, outcome="succeeded")
    act(admin_client, "release", [made[1]])
    report = act(admin_client, "release", made[:3])
    assert report.status_code == 200
    assert states() == ["succeeded", "released", "released", "open"]
    text = text_of(report)
    assert "1 row done. 2 rows skipped." in text
    assert f"Dispatch {made[0].pk} is succeeded since" in text
    assert "Nothing was left to do." in text


def test_repeating_an_action_changes_nothing(admin_client: Client) -> None:
    """I58: the same form again counts as skipped and writes no journal."""
    made = hand_out(2)
    act(admin_client, "cancel", made)
    entries = JournalEntry.objects.count()
    again = act(admin_client, "cancel", made)
    assert "2 rows skipped" in text_of(again)
    assert JournalEntry.objects.count() == entries
    assert Stock.objects.get().handed == 0


def test_unknown_and_foreign_ids_are_skipped(admin_client: Client) -> None:
    made = hand_out(1)
    report = admin_client.post(f"{LIST}act/cancel/", {"ids": f"{made[0].pk},17,18", "reason": "x"})
    assert "2 rows skipped" in text_of(report)
    assert states() == ["cancelled"]


@pytest.mark.parametrize("ids", ["", "abc", "1,two", ",", "1.5", "\0", "9" * 40, "9" * 5000])
def test_ids_that_are_none_lead_back_to_the_list(admin_client: Client, ids: str) -> None:
    made = hand_out(1)
    for answer in (
        admin_client.post(f"{LIST}act/cancel/", {"ids": ids, "reason": "x"}),
        admin_client.get(f"{LIST}act/cancel/", {"ids": ids}),
    ):
        assert answer.status_code == 302
        assert answer["Location"] == LIST
    made[0].refresh_from_db()
    assert made[0].is_open


def test_more_than_a_thousand_rows_are_refused_as_a_whole(admin_client: Client) -> None:
    (dispatch,) = hand_out(1)
    ids = ",".join([str(dispatch.pk), *(str(n) for n in range(1, 1001))])
    answer = admin_client.post(f"{LIST}act/cancel/", {"ids": ids, "reason": "x"})
    assert answer.status_code == 302
    assert "At most 1000 rows" in text_of(admin_client.get(LIST))
    assert states() == ["open"]


@pytest.mark.parametrize(
    "selected",
    [["abc"], ["1; drop"], ["1.5"], [""], ["9" * 40], ["9" * 5000]],
    ids=lambda s: s[0][:10],
)
def test_selection_that_is_none_changes_nothing(admin_client: Client, selected: list[str]) -> None:
    hand_out(1)
    answer = admin_client.post(
        LIST, {"action": "cancel", "_selected_action": selected, "index": "0"}
    )
    assert answer.status_code in {200, 302}
    assert states() == ["open"]


@pytest.mark.parametrize("action", ["nope", "delete_selected", "", "act_view"])
def test_unknown_action_changes_nothing(admin_client: Client, action: str) -> None:
    (dispatch,) = hand_out(1)
    answer = admin_client.post(
        LIST, {"action": action, "_selected_action": [str(dispatch.pk)], "index": "0"}
    )
    assert answer.status_code == 302
    assert admin_client.post(f"{LIST}act/{action or 'x'}/", {"ids": "1"}).status_code == 404
    assert states() == ["open"]


def test_asking_by_get_never_acts(admin_client: Client) -> None:
    (dispatch,) = hand_out(1)
    page = admin_client.get(f"{LIST}act/cancel/", {"ids": dispatch.pk, "reason": "x"})
    assert page.status_code == 200
    assert states() == ["open"]


def test_action_without_the_token_of_its_form_is_refused(admin_user: Any) -> None:
    (dispatch,) = hand_out(1)
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user, backend="django.contrib.auth.backends.ModelBackend")
    assert act(client, "cancel", [dispatch]).status_code == 403
    assert states() == ["open"]


@pytest.mark.parametrize("reason", ["x" * 501, "a\0b", "   "])
def test_reason_that_the_journal_could_not_keep_is_asked_for_again(
    admin_client: Client, reason: str
) -> None:
    (dispatch,) = hand_out(1)
    page = act(admin_client, "cancel", [dispatch], reason=reason)
    assert page.status_code == 200
    assert form_of(page, "reason")["ids"] == str(dispatch.pk)
    assert states() == ["open"]


@pytest.mark.parametrize(
    "back", ["//evil.example/", "https://evil.example/", "javascript:x", "\\\\e"]
)
def test_way_back_is_never_another_site(admin_client: Client, back: str) -> None:
    (dispatch,) = hand_out(1)
    answer = act(admin_client, "cancel", [dispatch], back=back)
    assert answer["Location"] == f"{LIST}{dispatch.pk}/change/"


def test_viewer_sees_no_buttons_and_may_not_act(role_client: Any) -> None:
    (dispatch,) = hand_out(1)
    viewer = role_client("viewer")
    assert page_of(viewer, dispatch).context["object_buttons"] == []
    assert act(viewer, "cancel", [dispatch]).status_code == 403
    answer = viewer.post(
        LIST, {"action": "cancel", "_selected_action": [str(dispatch.pk)], "index": "0"}
    )
    assert answer.status_code == 200
    assert states() == ["open"]


def test_buttons_are_those_that_the_state_allows(role_client: Any) -> None:
    (dispatch,) = hand_out(1)
    operator = role_client("operator")
    buttons = page_of(operator, dispatch).context["object_buttons"]
    assert [str(button.text) for button in buttons] == ["Release", "Expire", "Cancel the dispatch"]
    confirm = operator.get(buttons[0].url)
    operator.post(f"{LIST}act/release/", {**form_of(confirm, "reason"), "reason": "Ill"})
    assert states() == ["released"]
    assert page_of(operator, dispatch).context["object_buttons"] == []


def test_late_callback_keeps_its_result_on_the_timeline_for_those_who_may_see_it(
    admin_client: Client, role_client: Any
) -> None:
    (dispatch,) = hand_out(1)
    act(admin_client, "cancel", [dispatch])
    with pytest.raises(Exception, match="cancelled"):
        callback.call_back(
            executor=dispatch.executor, number=dispatch.pk, outcome="succeeded", result={"a": "z9"}
        )
    assert "z9" in text_of(page_of(admin_client, dispatch))
    shown = text_of(page_of(role_client("operator"), dispatch))
    assert "z9" not in shown
    assert "Late result" in shown


# --- operators with limits --------------------------------------------------------------------
def test_operator_with_limits_sees_and_touches_only_those_executors(
    role_client: Any, role_user: Any
) -> None:
    """ASVS 8.2.2: list, page, search, action and timeline alike."""
    mine, other = hand_out(2)
    OperatorScope.objects.create(operator=role_user("operator"), executor=mine.executor)
    operator = role_client("operator")
    assert [row.pk for row in operator.get(LIST).context["cl"].result_list] == [mine.pk]
    assert not operator.get(LIST, {"q": str(other.pk)}).context["cl"].result_list
    assert not operator.get(LIST, {"executor": other.executor.name}).context["cl"].result_list
    assert page_of(operator, other).status_code == 302
    assert operator.get(f"{LIST}{other.pk}/history/").status_code == 302
    report = act(operator, "cancel", [mine, other])
    assert "1 row done. 1 row skipped." in text_of(report)
    assert states() == ["cancelled", "open"]


def test_deadline_passed_is_still_open_until_the_sweep_and_may_be_released(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    (dispatch,) = hand_out(1, lease_seconds=1)
    frozen_clock.move_to(dispatch.deadline_at + timedelta(seconds=5))
    act(admin_client, "release", [dispatch])
    assert states() == ["released"]
    assert Executor.objects.get(name="uid_000").dispatches.count() == 1
