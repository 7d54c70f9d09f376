"""Sending many deliveries: the servers are called side by side, so that one that does not answer
delays no other. Only the calls have threads; all of the database is done here."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import datetime

from apps.alerts.channels.contract import OK, Answer, Verdict
from apps.alerts.models import Delivery
from apps.alerts.services.sending import Steps
from apps.common import clock
from apps.common.db import apart

# Channels that are called at the same time.
AT_ONCE = 32


def send_each(
    rows: Iterable[Delivery],
    steps_of: Callable[[Delivery], Steps | None],
    *,
    until: datetime | None = None,
) -> int:
    """Send the deliveries, those to one channel one after the other; returns how many were sent.

    `steps_of` is called as soon as it is the turn of one; None leaves it out. None is begun when
    the clock has passed `until`.
    """
    queues: dict[int, deque[Delivery]] = defaultdict(deque)
    for delivery in rows:
        queues[delivery.channel_id].append(delivery)
    waiting = deque(queues.values())
    calls: dict[Future[Answer], tuple[Steps, deque[Delivery]]] = {}
    sent = 0
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="channel") as pool:
        while waiting or calls:
            while waiting and len(calls) < AT_ONCE:
                queue = waiting.popleft()
                if until is not None and clock.now() >= until:
                    waiting.clear()
                    break
                if begun := _begun(queue, steps_of):
                    steps, call = begun
                    calls[pool.submit(call)] = steps, queue
            for ended in wait(calls, return_when=FIRST_COMPLETED).done if calls else ():
                steps, queue = calls.pop(ended)
                sent += _finish(steps, ended)
                if queue:
                    waiting.append(queue)
    return sent


def _begun(
    queue: deque[Delivery], steps_of: Callable[[Delivery], Steps | None]
) -> tuple[Steps, Callable[[], Answer]] | None:
    """Begin the first delivery of the queue whose server is to be called; None if there is none."""
    while queue:
        delivery = queue.popleft()
        with apart(f"delivery {delivery.pk}"):
            if (steps := steps_of(delivery)) is not None:
                try:
                    return steps, next(steps)
                except StopIteration:
                    # There was nothing to call.
                    continue
    return None


def _finish(steps: Steps, ended: Future[Answer]) -> bool:
    """Whether the message was taken."""
    verdict: Verdict | None = None
    with apart("a call of a channel"):
        try:
            if error := ended.exception():
                steps.throw(error)
            else:
                steps.send(ended.result())
        except StopIteration as end:
            verdict = end.value
    return verdict is not None and verdict.outcome == OK
