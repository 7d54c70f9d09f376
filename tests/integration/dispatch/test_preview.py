"""The preview shows what a user then really gets. S0.31, U2."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import strategies as st

from apps.common.errors import Invalid
from apps.dispatch.models import TASK_MODELS, Dispatch, Executor, Stock
from apps.dispatch.rules.preview import Item
from apps.dispatch.services import outlook, preview
from apps.dispatch.services.preview import Period, period_of
from tests import callback, factories
from tests.callback import take_next
from tests.frozen import FrozenClock
from tests.integration.api.world import checksum
from tests.integration.dispatch import plans

pytestmark = [pytest.mark.django_db, pytest.mark.both]

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
