"""Celery as people use it, on the same Redis: the baseline of the runner.

No results, default prefetch, two forked processes; a task is a message and leaves no trace.
"""

from __future__ import annotations

import os
import time

from celery import Celery
from redis import Redis

QUEUE = "benchmark-plain"
STAMPS = "benchmark-plain-stamps"

app = Celery("plain", broker=os.environ.get("REDIS_URL", ""))
app.conf.update(
    task_ignore_result=True,
    task_default_queue=QUEUE,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)


def server() -> Redis:
    """The broker itself: to see what is left in it, and to note times in it."""
    return Redis.from_url(os.environ["REDIS_URL"])


@app.task(name="plain.noop")
def noop() -> None:
    """Nothing."""


@app.task(name="plain.stamp")
def stamp(at: float) -> None:
    """Note the seconds since the sender read the clock."""
    server().rpush(STAMPS, time.monotonic() - at)


def is_drained(redis: Redis) -> bool:
    """Whether no message waits and none is under way."""
    return not redis.llen(QUEUE) and not redis.hlen("unacked")
