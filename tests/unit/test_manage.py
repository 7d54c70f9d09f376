"""What commands write where not all of it can be written."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.processes import ROOT

COMMAND = [sys.executable, "manage.py", "settings"]


def test_letters_that_a_terminal_cannot_show_end_no_command() -> None:
    coded = {**os.environ, "PYTHONIOENCODING": "ascii"}
    said = subprocess.check_output(COMMAND, cwd=ROOT, env=coded)
    assert b"MASKED_KEYS: password, secret, token, ??, ?" in said


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_reader_that_ends_early_gets_no_traceback(unbuffered: str) -> None:
    program = subprocess.Popen(
        COMMAND,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    assert program.stdout and program.stderr
    program.stdout.close()
    said = program.stderr.read()
    program.stderr.close()
    assert (said, program.wait()) == (b"", 141)
