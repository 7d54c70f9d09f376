"""Hooks around attempts: generators that run until their `yield`, and on after the handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apps.jobs.handlers import registry
from apps.jobs.rules.outcome import HeldJob


class HookFailed(Exception):
    """A hook has raised, or has not yielded once; `__cause__` is what it raised."""


def call_within(job: HeldJob, call: Callable[[], Any]) -> Any:
    """The call within all hooks, the first one outermost: what it returns or raises.

    HookFailed, with the name of the hook, for what a hook raises by itself.
    """
    for hook in reversed(registry.known.hooks):
        call = _Around(hook, job, call)
    return call()


class _Around:
    def __init__(self, hook: registry.Hook, job: HeldJob, call: Callable[[], Any]) -> None:
        self._hook, self._job, self._call = hook, job, call

    def __call__(self) -> Any:
        run = self._hook(self._job)
        self._step(lambda: next(run), is_over=False)
        try:
            returned = self._call()
        except BaseException as raised:  # noqa: BLE001 - raised again below
            error = raised
        else:
            self._step(lambda: next(run), is_over=True)
            return returned
        # A hook that keeps the error to itself has seen it; the attempt fails all the same.
        self._step(lambda: run.throw(error), is_over=True, thrown=error)
        raise error

    def _step(
        self,
        step: Callable[[], object],
        *,
        is_over: bool,
        thrown: BaseException | None = None,
    ) -> None:
        name = registry.path_of(self._hook)
        try:
            step()
        except StopIteration as stop:
            if not is_over:
                raise HookFailed(f"The hook {name} has not yielded.") from stop
        except BaseException as error:
            if error is not thrown:
                raise HookFailed(f"The hook {name} has failed: {error!r}") from error
        else:
            if is_over:
                raise HookFailed(f"The hook {name} yields more than once.")
