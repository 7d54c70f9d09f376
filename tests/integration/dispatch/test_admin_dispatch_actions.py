"""Release, expire and cancel in the admin: S0.28, I55 and I58."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from apps.dispatch.models import Stock
from apps.journal.models import JournalEntry
from tests import callback
from tests.integration.dispatch.test_admin_dispatches import LIST, act, hand_out, page_of, states
from tests.pages import form_of, text_of


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
