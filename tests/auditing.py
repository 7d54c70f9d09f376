"""Runs `manage.py audit` and reads what it reports."""

from __future__ import annotations

from io import StringIO

from django.core.management import call_command


def audit(*options: str) -> tuple[int, str]:
    """The exit code of the command, and what it printed."""
    out = StringIO()
    try:
        call_command("audit", *options, stdout=out)
    except SystemExit as end:
        return int(str(end.code)), out.getvalue()
    return 0, out.getvalue()


def breaches() -> list[str]:
    """The lines of an audit that finds something, without the summary."""
    code, text = audit()
    assert code == 1, text
    return text.splitlines()[:-1]
