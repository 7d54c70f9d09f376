"""The supervisor with real processes that misbehave on purpose."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import ROOT, eventually, usual_signals
from tests.workers import is_alive

WAIT_SECONDS = 60.0

PROGRAM = """
import json, sys, time
from pathlib import Path
from taskplatform import supervisor
from taskplatform.supervisor import Part, Supervisor

parts, constants, logs = json.loads(sys.argv[1])
# For how long a part that touches the file "ready" again and again counts as one that answers.
fresh = constants.pop("fresh", float("inf"))
for name, value in constants.items():
    setattr(supervisor, name, value)
show = lambda line: print(line, flush=True)
def greet():
    show("READY")
    Path(logs, "greeted").touch()
runner = Supervisor([Part(**part) for part in parts], logs=Path(logs), show=show)
ready = Path(logs, "ready")
def answers():
    return ready.exists() and time.time() - ready.stat().st_mtime < fresh
sys.exit(runner.run(is_ready=answers, on_ready=greet))
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

    def start(
        self,
        *parts: dict[str, object],
        ignoring: signal.Signals | None = None,
        **constants: float,
    ) -> subprocess.Popen[str]:
        arguments = json.dumps([parts, constants, str(self.folder)])
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=usual_signals(ignoring),
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_leading_part_starts_and_stops_before_the_others(run: Run, number: signal.Signals) -> None:
    process = run.start(part("worker", POLITE), part("web", POLITE, leads=True))
    eventually(lambda: len(run.lines_of("events")) == 2)

    process.send_signal(number)

    code, shown = run.end()
    assert code == 0 and shown == ["READY"]
    assert run.lines_of("events") == ["web up", "worker up", "web down", "worker down"]


# Granian loses a SIGTERM that comes while it loads the application.
DEAF = STUBBORN.replace('pathlib.Path("ready").touch()', "")


@pytest.mark.parametrize(
    ("program", "constants", "shown"),
    [
        (
            STUBBORN,
            {"STOP_SECONDS": 0.5, "HEAD_START_SECONDS": 0.2},
            ["READY", "web did not stop by itself and is killed."],
        ),
        (DEAF, {"HEAD_START_SECONDS": 3600, "STOP_SECONDS": 3600}, []),
    ],
    ids=["stubborn", "never answered"],
)
def test_part_that_does_not_stop_is_killed_with_all_it_started(
    run: Run, program: str, constants: dict[str, float], shown: list[str]
) -> None:
    """One that never answered is not waited for."""
    process = run.start(part("web", program, leads=True), **constants)
    greeted = (run.folder / "greeted").exists
    eventually(lambda: len(run.pids()) == 2 and (program == DEAF or greeted()))

    process.send_signal(signal.SIGINT)

    assert run.end() == (0, shown)
    eventually(lambda: not any(map(is_alive, run.pids())))


def test_second_ctrl_c_ends_the_wait(run: Run) -> None:
    process = run.start(
        part("web", STUBBORN, leads=True), STOP_SECONDS=3600, SAME_REQUEST_SECONDS=0.0
    )
    eventually(lambda: len(run.pids()) == 2 and (run.folder / "greeted").exists())

    process.send_signal(signal.SIGINT)
    eventually((run.folder / "refused").exists)
    process.send_signal(signal.SIGINT)

    assert run.end()[0] == 0
    eventually(lambda: not any(map(is_alive, run.pids())))


@pytest.mark.parametrize(
    "gap",
    [0.6, *(pytest.param(gap, marks=pytest.mark.long) for gap in (0.0, 0.3, 0.9, 1.0, 1.3))],
)
def test_two_sigterms_to_the_whole_unit_still_let_the_parts_finish(run: Run, gap: float) -> None:
    """systemd signals every process of the unit, `make` passes its own on, and so may others."""
    busy = POLITE.replace("time.sleep(0.3)", "time.sleep(2)")
    process = run.start(part("web", busy, leads=True), part("worker", busy))
    eventually(lambda: len(run.lines_of("events")) == 2 and (run.folder / "greeted").exists())
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 2

    for pause in (0.0, gap):
        time.sleep(pause)
        for pid in (process.pid, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    assert run.end() == (0, ["READY"])
    # One that is slow to end may note a late signal, too.
    assert {*run.lines_of("events")[2:]} == {"web down", "worker down"}


def test_part_that_lives_and_does_not_answer_is_replaced(run: Run) -> None:
    """SIGSTOP freezes it as an endless loop would."""
    beating = (
        "import os, pathlib, time\n"
        "with open('pids', 'a') as file:\n    file.write(f'{os.getpid()}\\n')\n"
        "while True:\n    pathlib.Path('ready').touch()\n    time.sleep(0.05)\n"
    )
    process = run.start(
        part("web", beating, leads=True),
        part("worker", POLITE),
        fresh=0.5,
        CHECK_SECONDS=0.1,
        FROZEN_SECONDS=2.0,
        FIRST_DELAY=0.05,
    )
    eventually(lambda: (run.folder / "greeted").exists())
    (frozen,) = run.pids()

    os.kill(frozen, signal.SIGSTOP)

    eventually(lambda: len(run.pids()) == 2)
    assert not is_alive(frozen)
    process.send_signal(signal.SIGTERM)
    code, shown = run.end()
    assert code == 0
    assert shown[1] == "web has not answered for 2 s."
    assert shown[2].startswith("web was killed by SIGKILL and starts again in")
    assert run.lines_of("events") == ["worker up", "worker down"]


def test_supervisor_under_nohup_stops_all_the_same_and_its_parts_know_sighup(run: Run) -> None:
    """A service manager may hand an ignored SIGHUP down."""
    asking = "import signal\nassert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL\n" + POLITE
    process = run.start(part("web", asking, leads=True), ignoring=signal.SIGHUP)
    eventually(lambda: len(run.lines_of("events")) == 1 and (run.folder / "greeted").exists())

    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)

    assert run.end() == (0, ["READY"])
    assert run.lines_of("events") == ["web up", "web down"]


def test_killed_supervisor_leaves_nothing_running(run: Run) -> None:
    """kill -9 cannot be caught; the kernel signals its parts."""
    process = run.start(part("web", POLITE, leads=True), part("worker", POLITE))
    eventually(lambda: len(run.lines_of("events")) == 2)

    process.kill()

    eventually(lambda: len(run.lines_of("events")) == 4)


def test_part_that_dies_is_started_again_with_growing_delays(run: Run) -> None:
    broken = "print('no such table: x', flush=True)\nraise SystemExit(3)"
    process = run.start(part("web", POLITE, leads=True), part("worker", broken), FIRST_DELAY=0.05)
    eventually(lambda: len(run.lines_of("worker.log")) == 4)

    process.send_signal(signal.SIGTERM)

    code, shown = run.end()
    assert code == 0
    assert shown[1].partition(" and starts again in ")[::2] == (
        "worker ended with code 3",
        f"0 s. Its last line: no such table: x (log: {run.folder / 'worker.log'})",
    )
    assert len([line for line in shown if "worker ended with code 3" in line]) >= 3
    assert run.lines_of("events") == ["web up", "web down"]


@pytest.mark.parametrize(
    ("program", "shown"),
    [
        (
            "print('no module named x', flush=True)\nraise SystemExit(3)",
            "web ended with code 3. Its last line: no module named x; stopping everything.",
        ),
        ("import signal\nsignal.pause()", "Nothing answers after 2 s; stopping everything."),
    ],
    ids=["dies", "never ready"],
)
def test_leading_part_that_does_not_become_ready_ends_the_start(
    run: Run, program: str, shown: str
) -> None:
    run.start(part("web", program, leads=True), part("worker", POLITE), READY_SECONDS=2.0)

    assert run.end() == (1, [f"{shown} The logs are in {run.folder}"])
    assert run.lines_of("events") == []


def test_what_a_dead_part_left_running_ends_before_it_starts_again(run: Run) -> None:
    orphaning = (
        "import os, pathlib, signal\n"
        "left, ready = os.pipe()\n"
        "if os.fork():\n    os.read(left, 1)\n    os._exit(1)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "others = [int(pid) for pid in pathlib.Path('pids').read_text().split()]\n"
        "alive = [pid for pid in others if pathlib.Path(f'/proc/{pid}').exists()"
        " and pathlib.Path(f'/proc/{pid}/cmdline').read_bytes()]\n"
        "pathlib.Path('overlap').touch() if alive else None\n"
        "with open('pids', 'a') as file:\n    file.write(f'{os.getpid()}\\n')\n"
        "os.write(ready, b'.')\n"
        "while True:\n    signal.pause()\n"
    )
    (run.folder / "pids").touch()
    process = run.start(
        part("web", POLITE, leads=True), part("worker", orphaning), FIRST_DELAY=0.05
    )
    eventually(lambda: len(run.pids()) >= 4)

    process.send_signal(signal.SIGTERM)

    assert run.end()[0] == 0
    assert not (run.folder / "overlap").exists()
    eventually(lambda: not any(map(is_alive, run.pids())))


def test_errors_reach_the_terminal_once_and_everything_reaches_the_log(run: Run) -> None:
    first, again = (
        json.dumps({"level": "ERROR", "message": f"the disk is on fire, try {number} of 100"})
        for number in (1, 2)
    )
    talking = f"print({first!r})\nprint('chatter')\nprint({again!r}, flush=True)\n" + POLITE
    process = run.start(part("web", talking, leads=True))
    eventually(lambda: run.lines_of("events") == ["web up"])
    eventually(lambda: len(run.lines_of("web.log")) == 3 and (run.folder / "greeted").exists())

    process.send_signal(signal.SIGTERM)

    code, shown = run.end()
    # The part may be found ready before what it has printed is read.
    assert (code, sorted(shown)) == (0, ["READY", "web: the disk is on fire, try 1 of 100"])
    assert run.lines_of("web.log") == [first, "chatter", again]


def test_signal_while_the_supervisor_replaces_the_set_up_ends_it_in_order(tmp_path: Path) -> None:
    """Nothing handles it for a moment; it waits until somebody does. A plan may be long."""
    between = (
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM); import manage; manage.main()"
    )
    command = [sys.executable, "-c", between, "serve", "--plan"]
    code = (
        f"from taskplatform import supervise; supervise.COMMAND = {command}\n"
        f"plan = supervise.Plan([], {str(tmp_path)!r}, '127.0.0.1', 1, {{}}, 'It runs.' * 10_000)\n"
        "supervise.become_supervisor(plan, lock=1)"
    )

    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
