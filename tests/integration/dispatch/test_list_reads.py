"""S0.31: a page of dispatches reads no more than it may, whatever is filtered for and by whom."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test import Client

from apps.common.admin.list_head import MAX_COUNTED
from apps.dispatch.admin.dispatches import DispatchAdmin
from apps.dispatch.api import dispatches as view
from apps.dispatch.models import Dispatch, Executor
from tests import factories
from tests.benchmark import people

pytestmark = [pytest.mark.mariadb, pytest.mark.django_db(transaction=True)]

EXAMINED = 300
# By an index: the rows that are counted, and those of the page. Else twice EXAMINED to find where
# to stop, and once to filter. Beside them, what belongs to the request itself.
MAX_READ = MAX_COUNTED + 300
LIST = "/admin/dispatch/dispatch/"
TASK = 7


@pytest.fixture
def crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    """8,000 ended dispatches: half to one user, half to 20 others; and before all, one to a user
    that was never seen again. One task has a thousand of the older half."""
    monkeypatch.setattr(view, "MAX_EXAMINED", EXAMINED)
    monkeypatch.setattr(DispatchAdmin, "max_examined", EXAMINED)
    monkeypatch.setattr(DispatchAdmin, "max_indexed", EXAMINED)
    busy, rare, *others = (
        people.User(factories.user(f"uid_{name}").pk, f"uid_{name}", 0)
        for name in ("busy", "rare", *range(20))
    )
    people.history([busy if n % 2 else others[n // 2 % 20] for n in range(8000)], 8000, task_pk=100)
    pks = list(Dispatch.objects.order_by("pk").values_list("pk", flat=True))
    Dispatch.objects.filter(pk=pks[0]).update(executor=rare.pk)
    # Of an occurrence each: nobody has one twice.
    Dispatch.objects.filter(pk__in=pks[:4000:4]).update(task=TASK, occurrence=F("pk"))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE TABLE dispatch_dispatch, dispatch_executor")
        cursor.fetchall()


def rows_read(ask: Callable[[], Any]) -> int:
    """By the second of two equal requests: the first one pays for what others then find."""
    ask()
    before = _reads()
    answer = ask()
    assert answer.status_code == 200, answer.content
    return _reads() - before


def _reads() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
        return sum(int(number) for _, number in cursor.fetchall())


QUERIES: list[dict[str, str]] = [
    {},
    {"state": "succeeded"},
    {"state": "cancelled"},
    {"state": "open"},
    {"source": "rotate"},
    {"executor": "uid_busy"},
    {"executor": "uid_rare"},
    {"source": "once", "task": str(TASK)},
    {"source": "once", "task": str(TASK), "state": "succeeded"},
    {"source": "once", "task": "1"},
    {"task": "1"},
    {"where": "params.order.city:x"},
    {"where": "params.order.city:x", "executor": "uid_busy"},
    {"where": "params.order.city:x", "source": "once", "task": str(TASK)},
]


def test_page_reads_a_bounded_number_of_rows(
    crowd: None, admin_client: Client, api: Any, subtests: pytest.Subtests
) -> None:
    for query in QUERIES:
        with subtests.test(query=query):
            by_people = rows_read(partial(admin_client.get, LIST, query))
            by_programs = rows_read(partial(api.get, "/api/v1/dispatches/", limit=10, **query))

            limit = MAX_READ
            if {"executor", "where"} <= query.keys() and not connection.mysql_is_mariadb:  # type: ignore[attr-defined]
                # MySQL may find where to stop by another index, of which it reads all that the
                # executor has, without the rows.
                limit += Dispatch.objects.filter(executor__name=query["executor"]).count()
            assert max(by_people, by_programs) <= limit, (by_people, by_programs)


def test_page_of_who_sees_some_executors_reads_no_more(
    crowd: None, limited: Any, api_with: Any, make_key: Any
) -> None:
    rare = Executor.objects.get(name="uid_rare")
    operator, program = limited(rare), api_with(make_key(executors=["uid_rare"]))

    by_people = rows_read(lambda: operator.get(LIST))
    by_programs = rows_read(lambda: program.get("/api/v1/dispatches/", limit=10))

    # With the executor of each row that is read.
    limit = MAX_READ + 2 * EXAMINED
    assert max(by_people, by_programs) <= limit, (by_people, by_programs)
