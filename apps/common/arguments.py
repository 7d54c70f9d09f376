"""Arguments of commands; what is wrong about one is said by the parser, with exit code 2."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError

from apps.common import clock
from apps.common.errors import Invalid
from apps.common.readers import read_instant, read_number


def number_argument(low: int, high: int) -> Callable[[str], int]:
    """The reader of a whole number of a command."""

    def read(text: str) -> int:
        number = read_number(text)
        if number is None or not low <= number <= high:
            raise ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
        return number

    return read


def _instant(text: str) -> datetime:
    """`2026-11-20` or `2026-11-20T09:30:00+08:00` of a command, UTC without an offset."""
    try:
        return read_instant(text, UTC)
    except Invalid as error:
        raise ArgumentTypeError(error.detail) from error


def add_period(parser: ArgumentParser) -> None:
    """Have a command take `--from` (`start`) and `--to` (`end`, None for now)."""
    parser.add_argument(
        "--from",
        dest="start",
        type=_instant,
        required=True,
        metavar="TIME",
        help="2026-11-20 or 2026-11-20T09:30:00+08:00; UTC without an offset",
    )
    parser.add_argument(
        "--to",
        dest="end",
        type=_instant,
        metavar="TIME",
        help="not included; now by default",
    )


def period_of(options: Mapping[str, Any]) -> tuple[datetime, datetime]:
    """The start and the end that `add_period` had a command take; CommandError when no time is
    between them."""
    start, now = options["start"], clock.now()
    end = options["end"] or now
    if start < end:
        return start, end
    if options["end"]:
        raise CommandError("--to must be later than --from.")
    raise CommandError(
        f"--from is {start:%Y-%m-%d %H:%M} UTC, which is still to come: now it is "
        f"{now:%Y-%m-%d %H:%M} UTC. Times of your zone end with its offset, as in +08:00."
    )
