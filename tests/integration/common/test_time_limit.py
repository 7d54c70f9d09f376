"""Searches whose rows take long: a page ends in time, and the next one goes on there."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from apps.common import time_limit
from apps.common.db import fetch
from apps.common.time_limit import in_time
from tests.integration.jobs.admin.pages import LIST, shown
from tests.jobs import job_type, jobs
from tests.pages import text_of

pytestmark = [pytest.mark.django_db, pytest.mark.both]

# Each of these letters begins what is looked for, and fails at the end of it.
_ALIKE, _SOUGHT = "a" * 2_000, "a" * 60 + "b" + "a" * 9


@pytest.mark.parametrize("sought", [_SOUGHT, _SOUGHT.replace("b", "é")], ids=["ASCII", "other"])
def test_pages_of_texts_that_take_long_are_short_and_go_on(
    sought: str,
    admin_client: Client,
    api: Any,
    monkeypatch: pytest.MonkeyPatch,
    subtests: pytest.Subtests,
) -> None:
    """The 20,000 rows of a page took MariaDB 61 s of such texts, and SQLite 31 s."""
    job_type()
    old = jobs(1, memo=f"{sought} is refused")
    slow = jobs(300, memo=_ALIKE)
    new = jobs(1, memo=f"told: {sought}")
    monkeypatch.setattr(time_limit, "MAX_SECONDS", 0.01)
    monkeypatch.setattr(time_limit, "FEWER", (200, 120))
    with subtests.test("list"):
        numbers, ends, page = [], [], {}
        while page is not None:
            answer = admin_client.get(LIST, {"q": sought} | page)
            numbers += shown(answer)
            older = answer.context["cl"].older
            ends += [] if older is None else [older]
            assert ("Look further back" in text_of(answer)) == (older is not None)
            page = None if older is None else {"before": str(older)}
        assert (numbers, ends) == ([*new, *old], [slow[-119], slow[-239]])

    with subtests.test("REST"):
        found, pages, address = [], 0, f"/api/v1/jobs/?memo={sought}"
        while address:
            answer = api.get(address).json()
            found += [int(each["id"]) for each in answer["results"]]
            address, pages = answer["next"], pages + 1
        assert (found, pages) == ([*new, *old], 3)


def test_only_the_last_number_of_rows_has_no_limit_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "MAX_SECONDS", 0.05)
    asked = []

    def count(most: int) -> int:
        asked.append(most)
        return _count_to(1_000 * most)

    assert (in_time(20_000, count), asked) == (150_000, [20_000, 2_000, 150])
    asked.clear()
    assert (in_time(100, count), asked) == (100_000, [100])
    assert _count_to(1_000_000) == 1_000_000, "the limit is gone"


def test_other_failures_are_no_end_of_the_time() -> None:
    asked = []

    def fail(most: int) -> None:
        asked.append(most)
        raise OperationalError(2013, "Lost connection")

    with pytest.raises(OperationalError, match="Lost connection"):
        in_time(20_000, fail)
    assert asked == [20_000]


def _count_to(number: int) -> int:
    """Takes a microsecond each, or less."""
    digits = " UNION ALL ".join(f"SELECT {digit} AS d" for digit in range(10))
    tables = ", ".join(f"({digits}) AS t{place}" for place in range(7))
    value = " + ".join(f"t{place}.d * {10**place}" for place in range(7))
    sql = f"SELECT count(*) FROM (SELECT 1 FROM {tables} WHERE {value} >= 0 LIMIT {number}) AS some"
    return int(fetch(sql)[0][0])
