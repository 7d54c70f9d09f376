"""The supervisor with real processes that misbehave on purpose."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import ROOT, eventually
from tests.workers import is_alive

WAIT_SECONDS = 60.0

PROGRAM = """
import json, sys
from pathlib import Path
from taskplatform import supervisor
from taskplatform.supervisor import Part, Supervisor

parts, constants, logs = json.loads(sys.argv[1])
for name, value in constants.items():
    setattr(supervisor, name, value)
tell = lambda line: print(line, flush=True)
def greet():
    tell("READY")
    Path(logs, "greeted").touch()
runner = Supervisor([Part(**part) for part in parts], logs=Path(logs), tell=tell)
ready = Path(logs, "ready")
sys.exit(runner.run(is_ready=ready.exists, on_ready=greet))
"""
# Says "up", and at SIGTERM "down", into the file `events`. It sleeps, because pause() would wait
# for a second signal when the first comes just before it.
POLITE = """
import pathlib, signal, sys, time
def note(what):
    with open("events", "a") as file:
        file.write(f"{NAME} {what}\\n")
def stop(*_):
    time.sleep(0.3)
    note("down")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
note("up")
pathlib.Path("ready").touch()
while True:
    time.sleep(0.05)
"""
# Notes SIGTERM and goes on, and so does the process that it starts.
STUBBORN = """
import os, pathlib, signal, time
def refuse(*_):
    pathlib.Path("refused").touch()
signal.signal(signal.SIGTERM, refuse)
os.fork()
with open("pids", "a") as file:
    file.write(f"{os.getpid()}\\n")
pathlib.Path("ready").touch()
while True:
    time.sleep(0.05)
"""


class Run:
    """One supervisor in a process of its own, working in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[str] | None = None

    def start(self, *parts: dict[str, object], **constants: float) -> subprocess.Popen[str]:
        arguments = json.dumps([parts, constants, str(self.folder)])
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        return self.process

    def end(self) -> tuple[int, list[str]]:
        """Wait for its end: the exit code and the lines on the terminal."""
        assert self.process is not None
        output, _ = self.process.communicate(timeout=WAIT_SECONDS)
        return self.process.returncode, output.splitlines()

    def lines_of(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def pids(self) -> list[int]:
        return [int(line) for line in self.lines_of("pids")]


def part(name: str, program: str, **options: bool) -> dict[str, object]:
    return {"name": name, "command": [sys.executable, "-c", f"NAME={name!r}\n{program}"], **options}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path)
    yield run
    if run.process is not None:
        run.process.kill()
        with run.process:
            pass
    for pid in run.pids():
        if is_alive(pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_leading_part_is_up_before_the_others_and_down_before_they_are_told(run: Run) -> None:
    process = run.start(part("worker", POLITE), part("web", POLITE, leads=True))
    eventually(lambda: len(run.lines_of("events")) == 2)

    process.send_signal(signal.SIGTERM)

    code, told = run.end()
    assert code == 0 and told == ["READY"]
    assert run.lines_of("events") == ["web up", "worker up", "web down", "worker down"]


def test_part_that_does_not_stop_is_killed_with_all_it_started(run: Run) -> None:
    process = run.start(part("web", STUBBORN, leads=True), STOP_SECONDS=0.5, HEAD_START_SECONDS=0.2)
    eventually(lambda: len(run.pids()) == 2 and (run.folder / "greeted").exists())

    process.send_signal(signal.SIGINT)

    code, told = run.end()
    assert code == 0
    assert told[-1] == "web did not stop by itself and is killed."
    eventually(lambda: not any(map(is_alive, run.pids())))


def test_part_that_never_answered_is_not_waited_for(run: Run) -> None:
    """Granian loses a SIGTERM that comes while it loads the application."""
    deaf = STUBBORN.replace('pathlib.Path("ready").touch()', "")
    process = run.start(part("web", deaf, leads=True), HEAD_START_SECONDS=3600, STOP_SECONDS=3600)
    eventually(lambda: len(run.pids()) == 2)

    process.send_signal(signal.SIGINT)

    assert run.end() == (0, [])
    eventually(lambda: not any(map(is_alive, run.pids())))


def test_second_ctrl_c_waits_no_longer(run: Run) -> None:
    process = run.start(part("web", STUBBORN, leads=True), STOP_SECONDS=3600)
    eventually(lambda: len(run.pids()) == 2 and (run.folder / "greeted").exists())

    process.send_signal(signal.SIGINT)
    eventually((run.folder / "refused").exists)
    process.send_signal(signal.SIGINT)

    assert run.end()[0] == 0
    eventually(lambda: not any(map(is_alive, run.pids())))


def test_killed_supervisor_leaves_nothing_running(run: Run) -> None:
    """kill -9 cannot be caught; its parts are told by the kernel."""
    process = run.start(part("web", POLITE, leads=True), part("worker", POLITE))
    eventually(lambda: len(run.lines_of("events")) == 2)

    process.kill()

    eventually(lambda: len(run.lines_of("events")) == 4)


def test_part_that_cannot_be_kept_running_stops_everything(run: Run) -> None:
    broken = "print('no such table: x', flush=True)\nraise SystemExit(3)"
    run.start(part("web", POLITE, leads=True), part("worker", broken), FIRST_DELAY=0.05)

    code, told = run.end()

    assert code == 1
    assert len([line for line in told if line.startswith("worker ended with code 3")]) == 5
    assert told[-1] == (
        "worker ended with code 3 for the 5th time within a minute; stopping everything. Its last "
        f"line was: no such table: x All of them are in {run.folder / 'worker.log'}"
    )
    assert run.lines_of("events") == ["web up", "web down"]


def test_what_a_dead_part_left_running_ends_before_it_starts_again(run: Run) -> None:
    orphaning = (
        "import os, signal\n"
        "left, ready = os.pipe()\n"
        "if os.fork():\n    os.read(left, 1)\n    os._exit(1)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "with open('pids', 'a') as file:\n    file.write(f'{os.getpid()}\\n')\n"
        "os.write(ready, b'.')\n"
        "while True:\n    signal.pause()\n"
    )
    run.start(part("web", orphaning, leads=True), FIRST_DELAY=0.05)

    code, _ = run.end()

    assert code == 1 and len(run.pids()) == 5
    assert not any(map(is_alive, run.pids()))


def test_what_left_the_session_of_a_part_is_buried_when_it_dies(run: Run) -> None:
    """Where the first process of the system buries nobody, as in many containers."""
    leaving = (
        "import os\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        with open('pids', 'a') as file:\n            file.write(f'{os.getpid()}\\n')\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    ) + POLITE
    process = run.start(part("web", leaving, leads=True))
    eventually(lambda: run.lines_of("events") == ["web up"] and run.pids())

    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in run.pids()))

    process.send_signal(signal.SIGTERM)
    assert run.end()[0] == 0


def test_nothing_ready_in_time_stops_everything(run: Run) -> None:
    silent = "import signal\nsignal.pause()"
    run.start(part("web", silent, leads=True), part("worker", POLITE), READY_SECONDS=0.5)

    code, told = run.end()

    assert code == 1
    assert told == [
        "Nothing answers after 0 s; stopping everything. The logs are in " + str(run.folder)
    ]
    assert run.lines_of("events") == []


def test_errors_reach_the_terminal_once_and_everything_reaches_the_log(run: Run) -> None:
    first, again = (
        json.dumps({"level": "ERROR", "message": f"the disk is on fire, try {number} of 100"})
        for number in (1, 2)
    )
    talking = f"print({first!r})\nprint('chatter')\nprint({again!r}, flush=True)\n" + POLITE
    process = run.start(part("web", talking, leads=True))
    eventually(lambda: run.lines_of("events") == ["web up"])
    eventually(lambda: len(run.lines_of("web.log")) == 3)

    process.send_signal(signal.SIGTERM)

    code, told = run.end()
    # The part may be found ready before what it has printed is read.
    assert (code, sorted(told)) == (0, ["READY", "web: the disk is on fire, try 1 of 100"])
    assert run.lines_of("web.log") == [first, "chatter", again]
