"""What a pull gave, for tests that pull again and again."""

from __future__ import annotations

from apps.dispatch.models import Dispatch
from apps.dispatch.services.pull import Nothing
from tests import callback


def title_of(taken: Dispatch | Nothing) -> str:
    """The title of the task, or that there was nothing."""
    return "nothing" if isinstance(taken, Nothing) else taken.title


def finish(taken: Dispatch | Nothing, outcome: str = "succeeded") -> None:
    """Call back for it; there has to be a task."""
    assert isinstance(taken, Dispatch)
    callback.call_back(executor=taken.executor, number=taken.pk, outcome=outcome)
