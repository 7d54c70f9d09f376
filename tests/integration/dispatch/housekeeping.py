"""Working tasks off, removing the past, and checking what is left."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from apps.common import clock
from apps.dispatch.models import Dispatch, Executor, Stock
from apps.dispatch.services import retention
from apps.dispatch.services.pull import Nothing
from tests import callback
from tests.callback import take_next


def purge() -> Counter[str]:
    return retention.purge(until=clock.now() + timedelta(hours=1))


def taken(executor: Executor) -> Dispatch:
    answer = take_next(executor)
    assert isinstance(answer, Dispatch), answer
    return answer


def finish(executor: Executor, outcome: str = "succeeded") -> Dispatch:
    return callback.call_back(executor=executor, number=taken(executor).pk, outcome=outcome)


def is_idle(executor: Executor) -> bool:
    return isinstance(take_next(executor), Nothing)


def audit() -> None:
    """I1: stock and dispatches agree, whatever has gone."""
    held = Counter(
        Dispatch.objects.filter(holds_stock=True).values_list("source", "task", "occurrence")
    )
    stocks = {(s.source, s.task, s.occurrence): s.handed for s in Stock.objects.all()}
    assert {key: handed for key, handed in stocks.items() if handed} == dict(held)


def coming(**duration: float) -> datetime:
    return clock.now() + timedelta(**duration)
