"""What planners should look at next: services/planning.py, and the lists that show these rows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.common import clock
from apps.dispatch.models import Dispatch, OnceTask
from apps.dispatch.services import executors, planning, pull
from apps.dispatch.services.planning import Found, Numbers, numbers
from tests import factories
from tests.callback import end, take_next
from tests.frozen import FrozenClock
from tests.pages import nothing_drawn, text_of
from tests.statements import analyze, indexes_on, is_read, is_sorted, parameters_up_to, sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
TASKS, EXECUTORS = "/admin/dispatch/oncetask/", "/admin/dispatch/executor/"
ALL_DAYS = {"from_day": "1970-01-01"}


def counted(found: Numbers) -> dict[str, int]:
    return {name: getattr(found, name).count for name in Numbers.__dataclass_fields__}


def listed(client: Client) -> dict[str, int]:
    """The rows of the lists to which the numbers lead, which are not drawn."""
    queries = {
        "unfilled": (TASKS, {"status": "unfilled", "ends": "24h", **ALL_DAYS}),
        "ending": (TASKS, {"status": "active", "ends": "6h", **ALL_DAYS}),
        "overdue": (TASKS, {"status": "overdue", **ALL_DAYS}),
        "silent": (EXECUTORS, {"silent": "True"}),
    }
    with nothing_drawn():
        pages: Any = {name: client.get(url, query) for name, (url, query) in queries.items()}
    return {name: len(page.context_data["cl"].result_list) for name, page in pages.items()}


@pytest.fixture
def some(frozen_clock: FrozenClock) -> dict[str, OnceTask]:
    """Tasks by what they are."""
    now, group = frozen_clock.instant, factories.group("gid_a", ["uid_ann", "uid_bob"])
    plans_: dict[str, dict[str, Any]] = {
        "ends in 5 h": {"end_at": now + 5 * HOUR},
        "ends in 23 h": {"end_at": now + 23 * HOUR},
        "ends in 25 h": {"end_at": now + 25 * HOUR},
        "starts in 2 h, ends in 5 h": {"start_at": now + 2 * HOUR, "end_at": now + 5 * HOUR},
        "out of reach in 5 h": {"start_at": now - 7 * DAY + 5 * HOUR},
        "ended": {"start_at": now - 2 * DAY, "end_at": now},
        "out of reach": {"start_at": now - 7 * DAY},
        "overdue": {"start_at": now - DAY},
        "paused": {"end_at": now + HOUR, "status": "paused"},
        "full, ends in 5 h": {"end_at": now + 5 * HOUR, "priority": 9},
    }
    tasks = {title: factories.once_task(group, title, **fields) for title, fields in plans_.items()}
    taken: Any = take_next(factories.member("uid_ann"))
    assert taken.task == tasks["full, ends in 5 h"].pk
    return tasks


def test_numbers_are_those_of_the_rows_in_their_lists(
    some: dict[str, OnceTask], admin_client: Client
) -> None:
    # What is out of reach soon has been due for long, too.
    assert counted(numbers()) == {"unfilled": 4, "ending": 4, "overdue": 2, "silent": 0}
    assert listed(admin_client) == counted(numbers())
    titles = [
        {
            task.title
            for task in admin_client.get(TASKS, {**query, **ALL_DAYS}).context["cl"].queryset
        }
        for query in ({"status": "unfilled", "ends": "24h"}, {"status": "active", "ends": "6h"})
    ]
    soon = {"ends in 5 h", "starts in 2 h, ends in 5 h", "out of reach in 5 h"}
    assert titles == [{*soon, "ends in 23 h"}, {*soon, "full, ends in 5 h"}]


def test_executor_is_silent_after_half_of_its_lease(
    frozen_clock: FrozenClock, admin_client: Client
) -> None:
    group = factories.group("gid_a", ["uid_ann", "uid_bob", "uid_eve"])
    factories.once_task(group, mode="multi", dispatch_times=3, lease_seconds=3600)
    for name in ("uid_ann", "uid_bob"):
        pull.answer_pull(name)
    frozen_clock.advance(minutes=29)
    pull.answer_pull("uid_bob")
    assert counted(numbers())["silent"] == listed(admin_client)["silent"] == 0
    frozen_clock.advance(minutes=1)
    assert counted(numbers())["silent"] == 1
    page = admin_client.get(EXECUTORS, {"silent": "True"})
    assert [row.name for row in page.context["cl"].result_list] == ["uid_ann"]
    end(Dispatch.objects.get(executor__name="uid_ann"))
    assert counted(numbers())["silent"] == 0


def test_limited_people_get_the_numbers_of_their_executors(
    some: dict[str, OnceTask], limited: Any
) -> None:
    mine = factories.group("gid_mine", ["uid_max"])
    factories.once_task(mine, "Mine", end_at=clock.now() + HOUR)
    assert counted(numbers(["gid_mine"])) == {"unfilled": 1, "ending": 1, "overdue": 0, "silent": 0}
    assert listed(limited(mine)) == counted(numbers(["gid_mine"]))
    assert counted(numbers([])) == {"unfilled": 0, "ending": 0, "overdue": 0, "silent": 0}


def test_limit_to_a_very_large_group(some: dict[str, OnceTask]) -> None:
    """Databases take only so many values in one statement."""
    large = factories.group("gid_large")
    for start in (0, 700):
        names = [f"uid_{number}" for number in range(start, start + 700)]
        executors.change_members(group=large, add=names, actor=factories.OPERATOR)
    factories.once_task(factories.member("uid_7"), "Ours", end_at=clock.now() + HOUR)
    with parameters_up_to(1_200):
        found = numbers(["gid_large"])
    assert counted(found) == {"unfilled": 1, "ending": 1, "overdue": 0, "silent": 0}


def test_numbers_say_when_there_was_more_to_look_at(
    some: dict[str, OnceTask], admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "MAX_LOOKED_AT", 4)
    found = numbers()
    # The first four to end: three can be had, and all end within six hours.
    assert found.unfilled == Found(3, is_whole=False)
    assert found.ending == Found(4, is_whole=True)
    assert found.overdue == Found(2, is_whole=True)
    monkeypatch.setattr(planning, "MAX_LOOKED_AT", 3)
    assert numbers().ending == Found(3, is_whole=False)
    monkeypatch.setattr("apps.dispatch.admin.filters.MAX_LOOKED_AT", 0)
    monkeypatch.setattr(planning, "MAX_LOOKED_AT", 0)
    page = admin_client.get(EXECUTORS, {"silent": "True"})
    assert "Only 0 open dispatches were looked at." in text_of(page)


def test_bulk_runs_are_not_offered_for_what_they_could_not_find_again(
    some: dict[str, OnceTask], admin_client: Client
) -> None:
    page = admin_client.get(TASKS, ALL_DAYS)
    assert page.context["bulk_links"]
    for query in ({"ends": "6h"}, {"status": "unfilled"}):
        assert not admin_client.get(TASKS, {**query, **ALL_DAYS}).context["bulk_links"]


@pytest.mark.django_db(transaction=True)  # ANALYZE TABLE commits
def test_tasks_are_found_by_indexes_of_their_ends_and_starts(frozen_clock: FrozenClock) -> None:
    group, now = factories.group(), frozen_clock.instant
    model = factories.once_task(group, start_at=now - DAY)
    model.version = 1
    OnceTask.objects.bulk_create(
        OnceTask(
            **{
                name: getattr(model, name)
                for name in ("title", "executor_id", "params", "created_at")
            },
            updated_at=now,
            start_at=now - 60 * DAY + n * HOUR,
            end_at=now - 59 * DAY + n * HOUR if n % 2 else None,
        )
        for n in range(1500)
    )
    analyze(OnceTask)
    reads = [sql for sql in sent_by(numbers) if is_read(OnceTask, sql) and "LIMIT 1001" in sql]
    assert len(reads) == 3
    for sql in reads:
        assert indexes_on(OnceTask, sql) <= {"oncetask_ending", "oncetask_due"}, sql
        assert not is_sorted(OnceTask, sql), sql
