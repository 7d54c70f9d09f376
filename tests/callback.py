"""What an executor does, by its row: pull, call back, extend, release."""

from __future__ import annotations

from typing import Any

from apps.dispatch.models import AnyDispatch, Dispatch, Executor
from apps.dispatch.services import pull
from apps.dispatch.services.pull import Nothing


def take_next(executor: Executor) -> Dispatch | Nothing:
    return pull.answer_pull(executor.name)


def taken(executor: Executor) -> Dispatch:
    """The dispatch that the executor gets; fails the test when there is nothing."""
    answer = take_next(executor)
    assert isinstance(answer, Dispatch), answer
    return answer


def finish(executor: Executor, outcome: str = "succeeded") -> AnyDispatch:
    """Pull and call back."""
    return call_back(executor=executor, number=taken(executor).pk, outcome=outcome)


def end(dispatch: Dispatch | Nothing, outcome: str = "succeeded") -> None:
    """Call back for what was pulled before; there has to be something."""
    assert isinstance(dispatch, Dispatch)
    call_back(executor=dispatch.executor, number=dispatch.pk, outcome=outcome)


def states() -> list[str]:
    """The states of all dispatches, oldest first."""
    return list(Dispatch.objects.order_by("pk").values_list("state", flat=True))


def title_of(taken: Dispatch | Nothing) -> str:
    """The title of the task, or that there was nothing."""
    return "nothing" if isinstance(taken, Nothing) else taken.title


def call_back(*, executor: Executor, number: int, outcome: str, **words: Any) -> AnyDispatch:
    return pull.call_back(executor.name, number, outcome, **words)


def call_back_and_pull(
    *, executor: Executor, number: int, outcome: str, **words: Any
) -> tuple[AnyDispatch, Dispatch | Nothing]:
    return pull.call_back_and_pull(executor.name, number, outcome, **words)


def extend(*, executor: Executor, number: int, seconds: int) -> AnyDispatch:
    return pull.extend(executor.name, number, seconds)


def release(*, executor: Executor, number: int, reason: str = "") -> AnyDispatch:
    return pull.release(executor.name, number, reason=reason)
