"""Texts of the documentation that a command prints; `python -m tests.generated` writes them anew.

They stand between `<!-- manage.py COMMAND -->` and `<!-- end -->`; `.env.example` is one itself.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import django
from django.core.management import call_command

from taskplatform.environment import BASE_DIR
from tests.environment import neutral

_BLOCK = re.compile(r"(<!-- manage\.py (.+?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def texts() -> Iterator[tuple[Path, str]]:
    """The files with such a text, and what should stand in them."""
    yield BASE_DIR / ".env.example", _printed("settings --example")
    for folder in ("apps", "taskplatform"):
        for file in sorted((BASE_DIR / folder).rglob("*.md")):
            before = file.read_text()
            after = _BLOCK.sub(lambda each: f"{each[1]}\n{_printed(each[2])}\n{each[4]}", before)
            if _BLOCK.search(before):
                yield file, after


def _printed(command: str) -> str:
    output = io.StringIO()
    call_command(*command.split(), stdout=output)
    return output.getvalue()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(neutral(Path(folder)), DJANGO_SETTINGS_MODULE="taskplatform.settings")
        django.setup()
        for file, text in texts():
            file.write_text(text)


if __name__ == "__main__":
    main()
