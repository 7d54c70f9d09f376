"""The line that names an error, in texts of many origins, and of exceptions themselves."""

from __future__ import annotations

import traceback

import pytest

from apps.common.error_lines import line_of_text
from tests.raised_errors import RAISED

HEAD = "Traceback (most recent call last):\n"
FRAME = '  File "x.py", line 3, in work\n    shop = shops[n]\n'
CHAIN = "\n\nDuring handling of the above exception, another exception occurred:\n\n"
# What the text has before the line, in it, and behind it.
TEXTS = [
    ("", "no disk", ""),
    ("\n\n  ", "no disk", "\nat all\n"),
    (f"{HEAD}{FRAME}", "KeyError: 7", ""),
    (f"{HEAD}{FRAME}           ~~~~~^^^\n", "KeyError: 7", "\nnote"),
    (f"{HEAD}{FRAME}KeyError: 7{CHAIN}{HEAD}{FRAME}", "OSError: full", "\nat 8%"),
    (f"{HEAD}{FRAME}", "a.Error: refused", "\n(Background on this error at: https://x/1)"),
    # Cut among the frames, or before what it was about.
    (f"{HEAD}{FRAME}… 900 characters are cut out …\n    f()\n", "KeyError: 7", ""),
    (HEAD + FRAME.splitlines()[0] + "\n    ", "shop = shops[n]", ""),
    (f"it broke\n{HEAD}{FRAME}", "KeyError: 7", ""),
    # Java, .NET, JavaScript, Go, Ruby, PHP.
    ("", "java.io.IOException: full", "\n\tat a.B.c(B.java:3)\nCaused by: x.Y: z\n\t... 3 more"),
    ("", "System.IO.IOException: full", "\n   at A.B() in B.cs:line 3"),
    ("", "TypeError: x is no function", "\n    at work (w.js:3:1)\n    at main"),
    ("", "panic: no disk", "\n\ngoroutine 1 [running]:\nmain.main()\n\t/x.go:3"),
    ("", "w.rb:3:in `work': no disk (IOError)", "\n\tfrom w.rb:9:in `main'"),
    ("", "PHP Fatal error:  Uncaught IOError: no disk", "\nStack trace:\n#0 {main}\n  thrown"),
]


def test_line_is_found_in_texts_of_many_origins(subtests: pytest.Subtests) -> None:
    for before, line, behind in TEXTS:
        with subtests.test(before=before, line=line):
            assert line_of_text(before + line + behind) == line
            assert line_of_text(line) == line
    rust = "thread 'main' panicked at src/main.rs:2:5:"
    assert line_of_text(f"{rust}\nno disk\nnote: run with") == f"{rust} no disk"
    assert line_of_text("") == line_of_text(" \n ") == ""


def test_tracebacks_name_what_the_exceptions_do(subtests: pytest.Subtests) -> None:
    for error, line in RAISED[:-3]:
        with subtests.test(line=line):
            try:
                raise error
            except BaseException:  # noqa: BLE001 - sys.exit() is one of them
                assert line_of_text(traceback.format_exc()) == line
