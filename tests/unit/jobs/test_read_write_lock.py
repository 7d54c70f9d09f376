"""S4.18: a suspect runs with nothing else beside it in its process."""

from __future__ import annotations

import threading

from apps.jobs.runner.process import ReadWriteLock
from tests.processes import eventually


def test_batches_share_the_process() -> None:
    gate = ReadWriteLock()
    with gate.shared(0) as first, gate.shared(0) as second:
        assert first and second


def test_nobody_runs_beside_a_suspect() -> None:
    gate = ReadWriteLock()
    with gate.alone(0) as alone, gate.shared(0) as shared, gate.alone(0) as other:
        assert (alone, shared, other) == (True, False, False)
    with gate.shared(0) as shared:
        assert shared


def test_suspect_does_not_start_beside_a_batch() -> None:
    gate = ReadWriteLock()
    with gate.shared(0), gate.alone(0) as alone:
        assert not alone
    with gate.alone(0) as alone:
        assert alone


def test_waiting_suspect_goes_before_new_batches() -> None:
    gate = ReadWriteLock()
    entered = threading.Event()
    done = threading.Event()

    def suspect() -> None:
        with gate.alone(10) as alone:
            assert alone
            entered.set()
            done.wait(10)

    with gate.shared(0):
        thread = threading.Thread(target=suspect)
        thread.start()
        eventually(lambda: gate.wanted)
        with gate.shared(0) as late:
            assert not late
        assert not entered.is_set()
    assert entered.wait(10)
    with gate.shared(0) as beside:
        assert not beside
    done.set()
    thread.join(10)
    assert gate.wanted == 0
