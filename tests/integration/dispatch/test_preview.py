"""What lies ahead: the preview shows what a user then really gets, and numbers what planners should
look at next. S0.31, U2."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.test import Client
from hypothesis import strategies as st

from apps.common import clock
from apps.common.errors import Invalid
from apps.dispatch.models import TASK_MODELS, Dispatch, Executor, OnceTask, Stock
from apps.dispatch.rules.preview import Item
from apps.dispatch.services import executors, outlook, preview, pull, silent_people
from apps.dispatch.services.preview import Period, period_of
from apps.dispatch.services.silent_people import PeopleCount, read_silent_people
from tests import callback, factories
from tests.callback import end, take_next
from tests.frozen import FrozenClock
from tests.integration.api.world import checksum
from tests.integration.dispatch import plans
from tests.pages import rows_of, text_of
from tests.statements import parameters_up_to

pytestmark = pytest.mark.django_db

NOW = plans.NOW
HOURS = 14


def previewed(executor: Executor, *, start: datetime, hours: float) -> preview.Preview:
    return preview.preview(executor, Period(start, start + timedelta(hours=hours)))


def pulled(executor: Executor, at: datetime) -> Item | None:
    """What a pull gets now, called back as succeeded at once."""
    open_now = Dispatch.objects.open_of(executor.pk)
    left = {row.pk: row.handed for row in Stock.objects.all()}
    holders = set(
        Dispatch.objects.filter(holds_stock=True).values_list(
            "source", "task", "occurrence", "executor"
        )
    )
    taken = take_next(executor)
    if not isinstance(taken, Dispatch):
        return None
    is_repeat = open_now is not None and open_now.pk == taken.pk
    task = TASK_MODELS[taken.source].objects.get(pk=taken.task)
    stock = Stock.objects.of(taken.source, taken.task, taken.occurrence).get()
    handed = stock.handed
    if not is_repeat:
        handed = left.get(stock.pk, 0)
    limit = task.dispatch_times
    if limit is None:
        owner = task.executor
        members = owner.members.values_list("user", flat=True) if owner.is_group else [owner.pk]
        limit, handed = len(members), sum((*taken.identity, pk) in holders for pk in members)
    callback.call_back(executor=executor, number=taken.pk, outcome="succeeded")
    return Item(
        at,
        taken.source,
        taken.task,
        taken.occurrence_at,
        taken.title,
        task.priority,
        max(0, limit - handed),
        taken.pk if is_repeat else None,
    )


def worked_off(executor: Executor, clock: FrozenClock, instants: list[datetime]) -> list[Item]:
    """All that a user gets who pulls until nothing is left, at each of these instants."""
    got: list[Item] = []
    for at in instants:
        clock.move_to(at)
        while (item := pulled(executor, at)) is not None:
            got.append(item)
    return got


def in_between(instants: list[datetime]) -> list[datetime]:
    """The instants, and the moments just before and midway."""
    found = set(instants)
    for one, other in pairwise(instants):
        found |= {one + (other - one) / 2, other - timedelta(microseconds=1)}
    return sorted(at for at in found if at >= instants[0])


@plans.in_worlds(30, skipped=st.integers(1, 600))
def test_preview_is_what_the_user_then_gets(
    world: dict[str, Any], skipped: int, frozen_clock: FrozenClock
) -> None:
    """S0.31: whatever the plan and whatever has happened before; nothing in between either. What
    comes before a later start is played through, not left out."""
    with plans.built(world, frozen_clock) as alice:
        now = frozen_clock.instant
        answer = previewed(alice, start=now, hours=HOURS)
        start = now + timedelta(minutes=skipped)
        rest = previewed(alice, start=start, hours=HOURS - skipped / 60)
        assert rest.items == [item for item in answer.items if item.at >= start]

        end = now + timedelta(hours=HOURS)
        instants = sorted({now, *(item.at for item in answer.items), end})
        got = worked_off(alice, frozen_clock, in_between(instants)[:-1])

        assert answer.items == got
        assert not answer.more


class TestReading:
    def test_a_preview_writes_nothing_and_asks_a_few_times(
        self, frozen_clock: FrozenClock, django_assert_max_num_queries: Any
    ) -> None:
        """S0.31: however many tasks there are."""
        group = factories.group("gid_a", ["uid_alice"])
        alice = factories.member("uid_alice")
        for number in range(60):
            start = frozen_clock.instant + timedelta(hours=number - 20)
            factories.once_task(group if number % 2 else alice, start_at=start)
            factories.rotation(alice, start_at=start)
        take_next(alice)
        before = checksum()

        with django_assert_max_num_queries(12) as asked:
            answer = previewed(alice, start=frozen_clock.instant, hours=12)

        assert len(answer.items) > 100
        assert all(each["sql"].lstrip("(").startswith("SELECT") for each in asked)
        assert checksum() == before

    def test_what_is_read_ahead_is_limited_and_exact_up_to_there(
        self, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(outlook, "MAX_AHEAD", 3)
        alice = factories.user()
        for hours in range(5):
            start = frozen_clock.instant + timedelta(hours=hours)
            factories.once_task(alice, str(hours), start_at=start)
        factories.rotation(alice, "Later", start_at=start)

        answer = previewed(alice, start=frozen_clock.instant, hours=24)

        assert ([item.title for item in answer.items], answer.more) == (["0", "1", "2", "3"], True)

    def test_what_is_played_through_is_limited(
        self, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(preview, "MAX_STEPS", 20)
        alice = factories.user()
        factories.rotation(alice, rule={"every_minutes": 1})

        soon = previewed(alice, start=frozen_clock.advance(minutes=0), hours=0.2)
        late = previewed(alice, start=frozen_clock.instant + timedelta(hours=1), hours=1)

        assert (len(soon.items), soon.more) == (12, False)
        assert (late.items, late.more) == ([], True)


def test_disabled_executor_keeps_what_it_has_and_gets_no_more(frozen_clock: FrozenClock) -> None:
    """S0.31: as a pull does."""
    alice = factories.user()
    factories.once_task(alice, "In hand")
    factories.once_task(alice, "Another")
    take_next(alice)
    Executor.objects.update(enabled=False)
    alice.refresh_from_db()

    answer = previewed(alice, start=frozen_clock.instant, hours=1)

    assert [item.title for item in answer.items] == ["In hand"]


def test_group_that_is_disabled_has_nothing_ahead(frozen_clock: FrozenClock) -> None:
    group = factories.group("gid_a", ["uid_alice"], enabled=False)
    factories.once_task(group)

    assert previewed(group, start=frozen_clock.instant, hours=1).items == []
    assert previewed(factories.member("uid_alice"), start=NOW, hours=1).items == []


def test_period_without_limits_is_the_next_seven_days() -> None:
    assert period_of(None, None, now=NOW) == (NOW, NOW + timedelta(days=7))
    with pytest.raises(Invalid, match="choose `to` after `from`"):
        period_of(NOW, NOW, now=NOW)


HOUR, DAY = timedelta(hours=1), timedelta(days=1)
TASKS, EXECUTORS = "/admin/dispatch/oncetask/", "/admin/dispatch/executor/"
ALL_DAYS = {"from_day": "1970-01-01"}


def listed(client: Client) -> dict[str, int]:
    """The rows of the lists of what planners look at, which are not drawn."""
    queries = {
        "unfilled": (TASKS, {"status": "unfilled", "ends": "24h", **ALL_DAYS}),
        "ending": (TASKS, {"status": "active", "ends": "6h", **ALL_DAYS}),
        "overdue": (TASKS, {"status": "overdue", **ALL_DAYS}),
        "silent": (EXECUTORS, {"silent": "True"}),
    }
    return {name: len(rows_of(client, url, **query)) for name, (url, query) in queries.items()}


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


def test_lists_of_what_ends_soon_or_is_late(
    some: dict[str, OnceTask], admin_client: Client
) -> None:
    # What is out of reach soon has been due for long, too.
    assert listed(admin_client) == {"unfilled": 4, "ending": 4, "overdue": 2, "silent": 0}
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
    assert read_silent_people().silent.count == listed(admin_client)["silent"] == 0
    frozen_clock.advance(minutes=1)
    assert read_silent_people().silent.count == 1
    page = admin_client.get(EXECUTORS, {"silent": "True"})
    assert [row.name for row in page.context["cl"].result_list] == ["uid_ann"]
    people = admin_client.get(EXECUTORS, {"kind": "user"}).context["cl"].tabs
    assert [(tab.text, tab.count) for tab in people] == [
        ("All", ""),
        ("Silent with work in hand", "1"),
    ]
    assert people[1].url == "?kind=user&silent=True"
    home = admin_client.get("/admin/").content.decode()
    assert f'href="{EXECUTORS}?kind=user&amp;silent=True"' in home
    assert admin_client.get(EXECUTORS, {"kind": "group"}).context["cl"].tabs == []
    end(Dispatch.objects.get(executor__name="uid_ann"))
    assert read_silent_people().silent.count == 0


def test_limited_people_get_the_numbers_of_their_executors(
    some: dict[str, OnceTask], limited: Any
) -> None:
    mine = factories.group("gid_mine", ["uid_max"])
    factories.once_task(mine, "Mine", end_at=clock.now() + HOUR)
    assert listed(limited(mine)) == {"unfilled": 1, "ending": 1, "overdue": 0, "silent": 0}
    assert (
        read_silent_people(["gid_mine"]).people,
        read_silent_people([]).people,
        read_silent_people().people,
    ) == (1, 0, 3)


def test_limit_to_a_very_large_group(some: dict[str, OnceTask]) -> None:
    """Databases take only so many values in one statement."""
    large = factories.group("gid_large")
    for start in (0, 700):
        names = [f"uid_{number}" for number in range(start, start + 700)]
        executors.change_members(group=large, add=names, actor=factories.OPERATOR)
    with parameters_up_to(1_200):
        found = read_silent_people(["gid_large"])
    assert (found.silent.count, found.people) == (0, 1_400)


def test_numbers_say_when_there_was_more_to_look_at(
    some: dict[str, OnceTask], admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.dispatch.admin.filters.MAX_LOOKED_AT", 0)
    monkeypatch.setattr(silent_people, "MAX_LOOKED_AT", 0)
    assert read_silent_people().silent == PeopleCount(0, is_whole=False)
    page = admin_client.get(EXECUTORS, {"silent": "True"})
    assert "Only 0 open dispatches were looked at." in text_of(page)
