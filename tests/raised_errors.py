"""Errors as programs raise them, and the line that names each: its class and first line."""

from __future__ import annotations

_SQL = (
    "\n[SQL: INSERT INTO shops (id) VALUES (7)]"
    "\n(Background on this error at: https://sqlalche.me/e/20/{})"
)

_CHILD = """Traceback (most recent call last):
  File "child.py", line 7, in <module>
KeyError: 7

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "child.py", line 9, in <module>
OSError: full"""


class DuplicateKey(Exception):
    """As wrappers of database drivers raise it: what went wrong, its statement, an address."""


class NoConnection(Exception):
    """Another error with the same last line but for its address."""


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def _chained() -> BaseException:
    try:
        try:
            raise KeyError("shop")
        except KeyError as first:
            raise ValueError("no such shop\nfirst line wins") from first
    except ValueError as second:
        return second


def _syntax() -> BaseException:
    try:
        compile("a = (", "given", "exec")
    except SyntaxError as error:
        return error
    raise AssertionError


def _noted() -> BaseException:
    error = OSError("disk\u2028is full")
    error.add_note("while the backup ran")
    return error


HERE = f"{__name__}."
# What is raised, and its line.
RAISED: list[tuple[BaseException, str]] = [
    (ValueError("no such shop"), "ValueError: no such shop"),
    (DuplicateKey("duplicate key" + _SQL.format("gkpj")), f"{HERE}DuplicateKey: duplicate key"),
    (NoConnection("refused" + _SQL.format("e3q8")), f"{HERE}NoConnection: refused"),
    (_syntax(), "SyntaxError: '(' was never closed"),
    (_chained(), "ValueError: no such shop"),
    (_noted(), "OSError: disk"),
    (
        ExceptionGroup("many", [KeyError("a"), OSError("b")]),
        "ExceptionGroup: many (2 sub-exceptions)",
    ),
    (
        RuntimeError("ffmpeg failed:\n  no such codec\n  ^"),
        "RuntimeError: ffmpeg failed: no such codec",
    ),
    (AssertionError(), "AssertionError"),
    (SystemExit(3), "SystemExit: 3"),
    (Speechless(), f"{HERE}Speechless: <exception str() failed>"),
    # From here on the text of the traceback shows another line.
    (LookupError("a\0b \ud800"), "LookupError: a\ufffdb ?"),
    (ValueError("long " * 9_000), f"ValueError: {'long ' * 397}".rstrip()),
    (RuntimeError(f"child ended\n{_CHILD}"), "RuntimeError: child ended"),
]
