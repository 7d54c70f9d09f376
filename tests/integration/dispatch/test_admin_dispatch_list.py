"""The list of dispatches: open ones first, the overdue, what they took and what came of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.common import clock
from apps.common.admin.result_words import result_words
from apps.common.masking import MASK
from apps.dispatch.models import Dispatch
from apps.dispatch.services import pull
from apps.dispatch.services.silent_people import silent_holders
from tests import factories
from tests.masks import CODE, PRIVATE_KEY
from tests.pages import text_of
from tests.statements import explained, is_read, sent_by

pytestmark = pytest.mark.django_db
LIST = "/admin/dispatch/dispatch/"


def handed_out(uid: str) -> Dispatch:
    factories.once_task(factories.user(uid), title=f"Task of {uid}")
    dispatch = pull.answer_pull(uid)
    assert isinstance(dispatch, Dispatch)
    return dispatch


def ended(uid: str, **given: Any) -> Dispatch:
    dispatch = handed_out(uid)
    now = clock.now()
    Dispatch.objects.filter(pk=dispatch.pk).update(
        state="succeeded",
        open_for=None,
        dispatched_at=now - timedelta(seconds=90),
        finished_at=now,
        **given,
    )
    return dispatch


def shown(client: Client, query: str = "") -> list[int]:
    return [row.pk for row in client.get(LIST + query).context["cl"].result_list]


def test_open_ones_stand_above_the_newest_and_none_is_lost(admin_client: Client) -> None:
    older, late = handed_out("uid_ann"), handed_out("uid_bob")
    newer = [ended(f"uid_c{n}") for n in range(3)]
    Dispatch.objects.filter(pk=late.pk).update(deadline_at=clock.now() - timedelta(minutes=31))
    newest_first = [row.pk for row in reversed(newer)]
    assert shown(admin_client) == [late.pk, older.pk, *newest_first]
    # Below a row and in a narrowed list, time alone orders.
    assert shown(admin_client, f"?before={newer[0].pk}") == [late.pk, older.pk]
    assert shown(admin_client, "?overdue=True") == [late.pk]
    page = text_of(admin_client.get(LIST))
    assert "Overdue 1" in page and "31 min" in page and "late" in page


@pytest.mark.sqlite
@pytest.mark.parametrize("tab", ["", "?state=open", "?overdue=1"])
def test_open_ones_are_found_by_an_index_however_many_are_over(
    admin_client: Client, tab: str
) -> None:
    handed_out("uid_ann")
    sent = sent_by(lambda: admin_client.get(LIST + tab))
    sent += sent_by(lambda: silent_holders(Dispatch.objects.all()))
    of_open = [sql for sql in sent if is_read(Dispatch, sql) and '"open_for" >' in sql]
    assert len(of_open) >= 3
    assert not [sql for sql in sent if '"open_for" IS NOT NULL' in sql]
    for sql in of_open:
        assert "SEARCH" in explained(sql)


def test_result_is_shown_to_those_who_may_see_it(
    admin_client: Client, role_client: Callable[..., Client]
) -> None:
    ended("uid_ann", result={"counted": 335, "unit": "box"}, message="")
    ended("uid_bob", result=None, message="The aisle was closed")
    for client, sees in ((admin_client, True), (role_client("viewer"), False)):
        page = text_of(client.get(LIST))
        assert ("counted 335 · unit box" in page) is sees
        assert "“The aisle was closed”" in page
        assert "1 min 30 s" in page


def test_results_are_said_in_a_few_words(subtests: pytest.Subtests) -> None:
    picture = "https://pictures.example/1.JPG?size=2"
    for result, fields, words in (
        ({"a": 1, "b": True, "c": "x"}, (), "a 1 · b yes"),
        ({"a": 1, "b": True, "c": "x"}, ("c", "gone"), "c x"),
        ({"photos": [picture, {"more": picture}], "n": 2}, (), "n 2 · 2 pictures"),
        ({"photo": picture}, (), "1 picture"),
        ({"api_token": "hush"}, (), f"api_token {MASK}"),
        ("done", (), "done"),
        ([1, 2], (), ""),
        (None, (), ""),
        ({"url": "https://[bad.jpg"}, (), "url https://[bad.jpg"),
        ({"pin": {"a": 1}, "u://b:c@d": "otp=1"}, (), f"pin {MASK} · u://{MASK}@d otp={MASK}"),
        ({"a": "word " * 20}, (), f"a {'word ' * 8} … (60 more characters)"),
        ({"a": "word " * 9_000}, (), f"a {'word ' * 8} …"),
        ("word " * 9_000, (), f"{'word ' * 8} …"),
        ({"a": [PRIVATE_KEY[0]], "b": [CODE[0]], "c": CODE[1]}, ("c",), f"c {MASK}"),
    ):
        with subtests.test(result=result):
            assert result_words(result, fields) == words


def test_words_of_large_results_cost_little() -> None:
    """A list of 60 jobs with results of 250 KB took 35 s, every ten seconds."""
    results = [
        {f"k{n}": "token: x and some words more " * 100 for n in range(80)},
        {"a": "token: x and some words more " * 8_000},
    ]
    began = time.thread_time()
    for result in results * 30:
        result_words(result)
    assert time.thread_time() - began < 2
