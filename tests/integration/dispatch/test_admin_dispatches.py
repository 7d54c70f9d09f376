"""Dispatches in the admin: S0.26, S0.28, I55, I58: the list, the page of one, the actions, and what
no role may see."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.test import Client

from apps.dispatch.admin.dispatches import DispatchAdmin
from apps.dispatch.models import Dispatch, Executor, Stock
from apps.dispatch.services import ending
from apps.journal.models import JournalEntry
from tests import callback, factories
from tests.callback import states
from tests.frozen import FrozenClock
from tests.pages import change_url, form_of, inline_code_of, page_of, text_of

LIST = "/admin/dispatch/dispatch/"


def hand_out(count: int, **fields: Any) -> list[Dispatch]:
    """So many open dispatches of one task, each to a user of its own."""
    names = [f"uid_{n:03}" for n in range(count)]
    group = factories.group("gid_shops", members=names)
    factories.once_task(group, mode="multi", dispatch_times=count, **fields)
    return [callback.taken(factories.member(name)) for name in names]


def act(client: Client, name: str, rows: list[Dispatch], **data: str) -> Any:
    ids = ",".join(str(row.pk) for row in rows)
    return client.post(f"{LIST}act/{name}/", {"ids": ids, "reason": "Shop closed", **data})


def test_rounds_are_counted_from_one_on_the_page_in_the_list_and_in_the_history(
    admin_client: Client,
) -> None:
    [made] = hand_out(1)
    assert "Try 1" in text_of(page_of(admin_client, made))
    Dispatch.objects.filter(pk=made.pk).update(round=1)
    JournalEntry.objects.filter(subject_id=made.pk, source="dispatch").update(attempt=2)
    text = text_of(page_of(admin_client, made))
    assert "Try 2" in text
    assert "try 2" in text
    assert "attempt 2" not in text
    table = DispatchAdmin(Dispatch, admin.site)
    made.refresh_from_db()
    [column] = [each.shown for each in table.list_columns if each.name == "round"]
    assert getattr(table, column)(made) == 2


# --- the list ---------------------------------------------------------------------------------
def shown(client: Client, **query: str) -> tuple[list[int], bool]:
    """The numbers on the first page, and whether only some of the rows were searched."""
    changelist = client.get(LIST, query).context["cl"]
    return [row.pk for row in changelist.result_list], changelist.examined is not None


def test_each_page_searches_some_rows_unless_an_index_has_them(
    admin_client: Client, limited: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = hand_out(5)
    task, oldest = str(made[0].task), made[0]
    ending.cancel(dispatch=oldest, actor="admin:olga", reason="x")
    monkeypatch.setattr(DispatchAdmin, "max_examined", 2)
    everything = sorted((each.pk for each in made), reverse=True)

    assert shown(admin_client, state="cancelled") == ([], True)
    assert shown(limited(oldest.executor)) == ([], True)
    assert shown(admin_client) == (everything, False)
    assert shown(admin_client, executor="uid_000", state="cancelled") == ([oldest.pk], False)
    assert shown(admin_client, q="uid_000") == ([oldest.pk], False)
    assert shown(admin_client, q=str(oldest.pk)) == ([oldest.pk], False)
    assert shown(admin_client, source="once", task=task) == (everything, False)
    for query in ({"task": task}, {"executor": "gid_shops"}, {"state": "open", "task": task}):
        assert shown(admin_client, **query) == (everything[: 4 + ("state" not in query)], False)
    assert shown(admin_client, state="open") == (everything[:4], False)
    monkeypatch.setattr(DispatchAdmin, "max_indexed", 3)
    assert shown(admin_client, executor="gid_shops") == (everything[:2], True)


def test_filters_and_search_compare_whole_values(
    admin_client: Client, frozen_clock: FrozenClock, subtests: pytest.Subtests
) -> None:
    made = hand_out(3)
    callback.call_back(executor=made[0].executor, number=made[0].pk, outcome="succeeded")
    cases: list[tuple[dict[str, str], list[int]]] = [
        ({"executor": "uid_000"}, [0]),
        ({"executor": "gid_shops"}, [0, 1, 2]),
        ({"executor": "uid_nobody"}, []),
        ({"executor": "uid á"}, []),
        ({"state": "open"}, [1, 2]),
        ({"state": "succeeded"}, [0]),
        ({"source": "once"}, [0, 1, 2]),
        ({"source": "rotate"}, []),
        ({"task": str(made[0].task)}, [0, 1, 2]),
        ({"task": "999"}, []),
        ({"from_day": "2026-03-02", "to_day": "2026-03-02"}, [0, 1, 2]),
        ({"from_day": "2026-03-03"}, []),
        ({"to_day": "2026-03-01"}, []),
        ({"q": "uid_002"}, [2]),
        ({"q": str(made[1].pk)}, [1]),
        ({"q": "17"}, []),
        ({"q": "Check"}, []),
        ({"q": "two words"}, []),
    ]
    for query, found in cases:
        with subtests.test(query=query):
            page = admin_client.get(LIST, query)
            shown = {row.pk for row in page.context["cl"].result_list}
            assert shown == {made[position].pk for position in found}
    assert "is not a name" in text_of(admin_client.get(LIST, {"executor": "uid á"}))


# --- the page of one --------------------------------------------------------------------------
def test_page_shows_the_story_of_the_dispatch(
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


def test_params_and_results_are_absent_for_roles_that_may_not_see_them(role_client: Any) -> None:
    (dispatch,) = hand_out(1, params={"shop": "Main Street 5"})
    callback.call_back(
        executor=dispatch.executor, number=dispatch.pk, outcome="succeeded", result={"x": "seen"}
    )
    for role in ("viewer", "blind", "operator"):
        text = text_of(page_of(role_client(role), dispatch))
        assert ("Main Street 5" in text) is (role == "operator")
        assert ("seen" in text) is (role == "operator")


def test_foreign_text_is_shown_as_text_and_runs_nowhere(admin_client: Client) -> None:
    evils = (
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "{{7*7}}",
        "javascript:alert(1)",
    )
    for n, evil in enumerate(evils):
        user = factories.user(f"uid_{n}")
        task = factories.once_task(
            user, title=evil, mode="multi", dispatch_times=None, params={evil: evil}
        )
        number, words = callback.taken(user).pk, {"result": {evil: evil}, "message": evil}
        ended: Any = callback.call_back(executor=user, number=number, outcome="failed", **words)
        page = page_of(admin_client, ended)
        assert inline_code_of(page) == []
        assert evil in text_of(page).replace('\\"', '"')
        planned = admin_client.get(f"/admin/dispatch/oncetask/{task.pk}/change/")
        assert inline_code_of(planned) == []
        assert form_of(planned, "title")["title"] == evil
    for url in (LIST, "/admin/dispatch/oncetask/"):
        page = admin_client.get(url)
        assert inline_code_of(page) == []
        assert not [evil for evil in evils if evil not in text_of(page).replace('\\"', '"')]


def test_text_that_turns_around_or_steers_a_terminal_is_spelled_out(admin_client: Client) -> None:
    (dispatch,) = hand_out(1, title="abc\u202egnp.exe \x1b[31m")
    for page in (admin_client.get(LIST), page_of(admin_client, dispatch)):
        shown = text_of(page)
        assert "abc\\u202egnp.exe \\u001b[31m" in shown
        body = page.content.decode().split("<title>")[1].split("</title>")[1]
        assert "\x1b" not in body


def test_empty_list_says_where_rows_come_from_and_a_narrowed_one_how_to_get_back(
    admin_client: Client,
) -> None:
    empty = admin_client.get(LIST)
    narrowed = [admin_client.get(LIST, query) for query in ({"state": "open"}, {"q": "uid_x"})]

    shown = text_of(empty)
    assert "Nothing here yet A dispatch is written whenever a task is handed out." in shown
    assert "Reset filters" not in shown
    for page in narrowed:
        shown = text_of(page)
        assert "Nothing found No row fits what is searched and filtered for." in shown
        assert "Reset filters" in shown
    hint = "The search looks for: Number or person, or params.path:value"
    assert [hint in text_of(page) for page in narrowed] == [False, True]


def test_list_leads_from_titles_to_tasks(admin_client: Client) -> None:
    task = factories.once_task(factories.user(), title="Count <b>")
    callback.take_next(Executor.objects.get())
    page = admin_client.get(LIST).content.decode()
    url = change_url(task)
    assert f'href="{url}" title="once:{task.pk}">Count &lt;b&gt;</a>' in page


def test_action_ends_the_dispatch_with_its_reason_in_one_journal_entry(role_client: Any) -> None:
    """I55: who, when, from, to and why, once, in the transaction of the change."""
    operator = role_client("operator")
    ends = (("release", "released"), ("expire", "expired"), ("cancel", "cancelled"))
    for left, (name, state), dispatch in zip((2, 1, 0), ends, hand_out(3), strict=True):
        before = JournalEntry.objects.count()
        answer = act(operator, name, [dispatch])
        assert answer.status_code == 302
        dispatch.refresh_from_db()
        assert dispatch.state == state
        assert Stock.objects.get().handed == left
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


def test_rows_that_moved_meanwhile_are_skipped_each_with_its_why(
    admin_client: Client, frozen_clock: Any, settings: Any
) -> None:
    """I58: per-row compare and set, done and skipped shown, the others and unknown ones not."""
    settings.TIME_ZONE = "Asia/Shanghai"
    made = hand_out(4)
    callback.call_back(executor=made[0].executor, number=made[0].pk, outcome="succeeded")
    act(admin_client, "release", [made[1]])
    ids = ",".join(map(str, [*(row.pk for row in made[:3]), 17, 18]))
    report = admin_client.post(f"{LIST}act/release/", {"ids": ids, "reason": "Shop closed"})
    assert report.status_code == 200
    assert states() == ["succeeded", "released", "released", "open"]
    text = text_of(report)
    assert "1 row done. 4 rows skipped." in text
    at = made[0].pk, "2026-03-02 17:00:00 UTC+8"
    assert "Dispatch {} is succeeded since {}.".format(*at) in text
    assert "Nothing was left to do." in text


def test_way_back_is_never_another_site(admin_client: Client) -> None:
    others = ("//evil.example/", "https://evil.example/", "javascript:x", "\\\\e")
    for back, dispatch in zip(others, hand_out(4), strict=True):
        answer = act(admin_client, "cancel", [dispatch], back=back)
        assert answer["Location"] == f"{LIST}{dispatch.pk}/change/", back


def test_buttons_are_those_that_the_state_allows(role_client: Any) -> None:
    (dispatch,) = hand_out(1)
    operator = role_client("operator")
    buttons = page_of(operator, dispatch).context["object_buttons"]
    offered = ["Give to…", "Release", "Expire", "Cancel"]
    assert [str(button.text) for button in buttons] == offered
    assert [button.is_dangerous for button in buttons] == [False, False, False, True]
    confirm = operator.get(buttons[1].url)
    operator.post(f"{LIST}act/release/", {**form_of(confirm, "reason"), "reason": "Ill"})
    assert states() == ["released"]
    left = page_of(operator, dispatch).context["object_buttons"]
    assert [str(button.text) for button in left] == ["Ask again…"]


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
    shown = text_of(page_of(role_client("blind"), dispatch))
    assert "z9" not in shown
    assert "Late result" in shown


ODD_IDS = ("", "abc", "1,two", ",", "1.5", "\0", "9" * 40, "9" * 5000)


def test_what_is_asked_for_wrongly_changes_nothing(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    """By ids that are none, a selection that is none, an action that is none, a GET, a reason that
    the journal could not keep, and more rows than go at once."""
    (dispatch,) = hand_out(1)
    url = f"{LIST}act/cancel/"
    for ids in ODD_IDS:
        with subtests.test(ids=ids[:40]):
            for answer in (
                admin_client.post(url, {"ids": ids, "reason": "x"}),
                admin_client.get(url, {"ids": ids}),
            ):
                assert (answer.status_code, answer["Location"]) == (302, LIST)
    for action, selected in (
        *(("cancel", odd) for odd in ODD_IDS),
        *((odd, str(dispatch.pk)) for odd in ("nope", "delete_selected", "", "act_view")),
    ):
        with subtests.test(action=action, selected=selected[:40]):
            data = {"action": action, "_selected_action": [selected], "index": "0"}
            assert admin_client.post(LIST, data).status_code in {200, 302}
            unknown = admin_client.post(f"{LIST}act/{action or 'x'}/", {"ids": "1"})
            assert action == "cancel" or unknown.status_code == 404
    asked = admin_client.get(url, {"ids": dispatch.pk, "reason": "x"})
    assert asked.status_code == 200
    assert "required" not in text_of(asked)
    for reason in ("x" * 501, "a\0b", "   "):
        page = act(admin_client, "cancel", [dispatch], reason=reason)
        assert page.status_code == 200
        assert form_of(page, "reason")["ids"] == str(dispatch.pk)
    many = ",".join([str(dispatch.pk), *(str(n) for n in range(1, 1001))])
    assert admin_client.post(url, {"ids": many, "reason": "x"}).status_code == 302
    assert "At most 1000 rows" in text_of(admin_client.get(LIST))
    assert states() == ["open"]
