"""S4.18: a suspect runs with nothing else beside it in its process."""

from __future__ import annotations

import threading

from apps.jobs.runner.process import ReadWriteLock
from tests.processes import eventually


def test_batches_share_the_process() -> None:
    lock = ReadWriteLock()
    with lock.shared(0) as first, lock.shared(0) as second:
        assert first and second


def test_nobody_runs_beside_a_suspect() -> None:
    lock = ReadWriteLock()
    with lock.alone(0) as alone, lock.shared(0) as shared, lock.alone(0) as other:
        assert (alone, shared, other) == (True, False, False)
    with lock.shared(0) as shared:
        assert shared


def test_suspect_does_not_start_beside_a_batch() -> None:
    lock = ReadWriteLock()
    with lock.shared(0), lock.alone(0) as alone:
        assert not alone
    with lock.alone(0) as alone:
        assert alone


def test_waiting_suspect_goes_before_new_batches() -> None:
    lock = ReadWriteLock()
    entered = threading.Event()
    done = threading.Event()

    def suspect() -> None:
        with lock.alone(10) as alone:
            assert alone
            entered.set()
            done.wait(10)

    with lock.shared(0):
        thread = threading.Thread(target=suspect)
        thread.start()
        eventually(lambda: lock.wanted)
        with lock.shared(0) as late:
            assert not late
        assert not entered.is_set()
    assert entered.wait(10)
    with lock.shared(0) as beside:
        assert not beside
    done.set()
    thread.join(10)
    assert lock.wanted == 0
