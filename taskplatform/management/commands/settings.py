"""Prints the variables of the environment, which the documentation shows, too."""

from __future__ import annotations

import textwrap
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from apps.common.conf import Setting
from apps.common.masking import MASK, redact_line
from taskplatform.conf import ALL

_EXAMPLE = """\
# Copy this file to .env and uncomment what differs on this machine. Variables of the process
# override this file. Put no comment after a value: it would become part of it.
"""
_WIDTH = 100


class Command(BaseCommand):
    help = (
        "Prints each variable of the environment or of .env: its value now, if it has one, its "
        "default, what is allowed and what it means. Passwords and keys are masked."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--table", action="store_true", help="tables of Markdown, without values")
        form.add_argument("--example", action="store_true", help="the text of .env.example")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["table"]:
            self.stdout.write(_table())
        elif options["example"]:
            self.stdout.write(_example())
        else:
            # Its signs of code are for the documentation.
            self.stdout.write(_now().replace("`", ""))


def _default(setting: Setting[Any]) -> str:
    return setting.usual or setting.default.replace(",", ", ") or "none"


def _table() -> str:
    """A table for each group."""
    lines: list[str] = []
    for conf in ALL:
        lines += ["", f"### {conf.title}", "", "| variable | default | allowed | meaning |"]
        lines += ["|---|---|---|---|"]
        lines += [
            f"| `{name}` | {_default(each)} | {each.allowed} | {each.meaning} |"
            for name, each in conf.declared().items()
        ]
    return "\n".join(lines[1:])


def _example() -> str:
    """Each variable with its meaning and a value, as a comment."""
    blocks = [_EXAMPLE]
    for conf in ALL:
        lines = [f"# --- {conf.title} ".ljust(_WIDTH, "-")]
        for name, each in conf.declared().items():
            lines += textwrap.wrap(
                each.meaning, _WIDTH, initial_indent="# ", subsequent_indent="# "
            )
            lines += [f"# {name}={each.example or each.default}", ""]
        blocks.append("\n".join(lines))
    return "\n".join(blocks).rstrip()


def _now() -> str:
    """The values that this process was given, each with its default; else the default alone."""
    lines: list[str] = []
    for conf in ALL:
        lines += ["", conf.title]
        for name, each in conf.declared().items():
            value, usual = _shown(each), _default(each)
            lines += [f"  {name}={value}  (default: {usual})" if value else f"  {name}: {usual}"]
            lines += textwrap.wrap(
                f"{each.meaning} Allowed: {each.allowed}.",
                _WIDTH,
                initial_indent="      ",
                subsequent_indent="      ",
            )
    return "\n".join(lines[1:])


def _shown(setting: Setting[Any]) -> str:
    """The text of the environment; of a secret, the address without its password, or a mask."""
    text = setting.text()
    if not setting.is_secret or not text:
        return text
    return str(redact_line(text)) if "://" in text else MASK
