"""What a pull gave, for tests that pull again and again."""

from __future__ import annotations

from typing import Any

from apps.dispatch.models import Dispatch, Stock
from apps.dispatch.services.pull import Nothing
from tests import callback


def title_of(taken: Dispatch | Nothing) -> str:
    """The title of the task, or that there was nothing."""
    return "nothing" if isinstance(taken, Nothing) else taken.title


def finish(taken: Dispatch | Nothing, outcome: str = "succeeded") -> None:
    """Call back for it; there has to be a task."""
    assert isinstance(taken, Dispatch)
    callback.call_back(executor=taken.executor, number=taken.pk, outcome=outcome)


def handed(task: Any) -> int:
    """How much of the stock of a once task is used."""
    return Stock.objects.filter(source="once", task=task.pk).values_list("handed", flat=True)[0]
