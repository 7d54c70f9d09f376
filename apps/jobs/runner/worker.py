"""The Celery worker that runs drains: its start, its forks and its end."""

from __future__ import annotations

import faulthandler
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from celery import signals
from django.conf import settings
from django.db import DatabaseError, connections

from apps.jobs.conf import conf
from apps.jobs.handlers import checks, registry
from apps.jobs.rules.slots import LANES
from apps.jobs.runner.drain import Drain
from apps.jobs.runner.heartbeat import HeartbeatThread
from apps.jobs.runner.process import Node, Process
from apps.jobs.runner.scan import scan
from apps.jobs.runner.watchdog import Caretaker, Watchdog
from apps.jobs.services.types import make_types

logger = logging.getLogger(__name__)

_ACTOR = "worker"
# Added to the time of handlers: forks release what they hold, and Celery closes its broker.
_END_SECONDS = 10
# The forking process has a node and no process of its own; every other has both.
_node: Node | None = None
_process: Process | None = None


class WorkerCannotStart(SystemExit):
    """Why this worker cannot start, as a sentence."""

    def __init__(self, reason: str) -> None:
        logger.critical(reason)
        print(reason, file=sys.__stderr__, flush=True)
        super().__init__(1)


def drain(lane: str) -> int:
    """Run a drain of the lane until it is not needed; returns how many jobs it ran."""
    if _process is None or lane not in _process.node.lanes:
        # A worker without lanes was given a message that is not for it.
        return 0
    with _stopping_at_sigterm(_process):
        return Drain(_process, lane, summon=scan).run()


@contextmanager
def _stopping_at_sigterm(process: Process) -> Iterator[None]:
    """While a fork drains, SIGTERM stops it in order.

    Celery's own handler, installed after the fork, would interrupt the running job.
    """
    if not process.node.forks:
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: process.stop())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def verify() -> None:
    """WorkerCannotStart when handlers are wrong; then make the missing job types, and log which
    types this worker does not serve, because their handlers are missing."""
    if registry.known.problems:
        raise WorkerCannotStart("\n".join(registry.known.problems))
    make_types(actor=_ACTOR)
    for gap in checks.gaps():
        logger.warning(gap)


def start_process(node: Node) -> Process:
    """Make this process a worker: its row, its heartbeat, its watchdog."""
    global _process
    _process = Process(node)
    for thread in (HeartbeatThread(_process), Caretaker(_process), Watchdog(_process)):
        thread.start()
    return _process


@signals.celeryd_after_setup.connect
def _set_up(instance: Any, **_: Any) -> None:
    global _node
    queues = set(instance.app.amqp.queues.consume_from)
    lanes = sorted(queues & set(LANES))
    if not lanes:
        return
    slots = instance.concurrency
    if queues - set(LANES):
        # Keep one slot for the other queues: drains do not end by themselves.
        slots -= 1
    if slots < 1:
        raise WorkerCannotStart(
            "A worker of one slot cannot serve other queues beside fast and slow; give it "
            "--concurrency 2, or start one worker with -Q fast,slow and one with -Q sweeps."
        )
    forks = "prefork" in instance.pool_cls.__module__
    if forks and not settings.REDIS_URL:
        # The pool shares messages under locks that a killed fork may keep.
        raise WorkerCannotStart(
            "Forked workers need Redis as their broker: set REDIS_URL, or start this worker with "
            "--pool threads."
        )
    try:
        verify()
    except DatabaseError as error:
        raise WorkerCannotStart(f"The database does not answer: {error}") from error
    except Exception as error:
        # Celery would log it and go on with a worker that runs nothing.
        raise WorkerCannotStart(f"The job types cannot be made: {error!r}") from error
    finally:
        connections.close_all()
    # SIGALRM prints where the process was.
    faulthandler.register(signal.SIGALRM, file=sys.__stderr__ or sys.stderr, chain=True)
    _node = Node(instance.hostname, lanes, slots, forks)
    if not forks:
        start_process(_node)


@signals.worker_process_init.connect
def _forked(**_: Any) -> None:
    if _node is not None:
        start_process(_node)


@signals.worker_ready.connect
def _listen(**_: Any) -> None:
    """Handle a stop before Celery does: Celery waits for its tasks, and drains do not end by
    themselves."""
    if _node is None or threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        before = signal.getsignal(number)

        def stop(number: int, frame: FrameType | None, before: Any = before) -> None:
            _stopping()
            if callable(before):
                before(number, frame)

        signal.signal(number, stop)


@signals.worker_shutting_down.connect
def _stopping(**_: Any) -> None:
    if _node is None or _node.flag[0]:
        return
    _node.flag[0] = 1
    # If Celery hangs, the alarm ends it; forks end with their parent.
    signal.alarm(conf.JOB_STOP_SECONDS + _END_SECONDS)


@signals.worker_process_shutdown.connect
@signals.worker_shutdown.connect
def _leave(**_: Any) -> None:
    if _process is None:
        return
    try:
        _process.leave()
    except DatabaseError as error:
        logger.warning("the worker could not leave the register: %s", error)
