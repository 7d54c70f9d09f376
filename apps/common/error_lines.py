"""The one line that names an error: of the exception where that is at hand, else found in a text.

`sdk.py` has a copy of the first, because it imports nothing of the platform.
"""

from __future__ import annotations

import traceback

_TRACEBACK = "Traceback (most recent call last):"
# Between the tracebacks of a chain, of which the last one is what was raised.
_CHAINS = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
# Lines of frames and of source; the last is what stands for a part that was cut out.
_FRAMES = (" ", "\t", "…")


def line_of_error(error: BaseException) -> str:
    """`Class: first line`, with the module of the class as tracebacks show it."""
    try:
        text = "".join(traceback.format_exception_only(error))
    except Exception as second:  # noqa: BLE001 - its attributes may raise, too
        return f"{type(error).__name__}, which cannot be formatted: {type(second).__name__}"
    return _first_of(text.splitlines())


def line_of_text(text: str) -> str:
    """The line that names the error in what a worker sent; "" for no text.

    In a traceback of Python it comes after the frames. Anything else, such as a stack trace of
    another language, begins with it.
    """
    if not text:
        return ""
    lines = [line.removeprefix("  | ").removeprefix("  + ") for line in text.strip().splitlines()]
    chained = [at for at, line in enumerate(lines) if line.strip() in _CHAINS]
    last = lines[chained[-1] + 1 :] if chained else lines
    for at, line in enumerate(last):
        if line.strip().endswith(_TRACEBACK):
            return _first_of(last[at + 1 :]) or lines[-1].strip()
    return _first_of(last) or (lines[-1].strip() if lines else "")


def _first_of(lines: list[str]) -> str:
    """The first line that is no frame; one that ends in a colon says what follows."""
    for at, line in enumerate(lines):
        if line.strip() and not line.startswith(_FRAMES):
            rest = (each.strip() for each in lines[at + 1 :] if each.strip())
            named = line.strip()
            return f"{named} {next(rest, '')}".strip() if named.endswith(":") else named
    return ""
