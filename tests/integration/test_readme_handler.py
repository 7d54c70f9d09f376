"""The handler that the README shows is run as it stands there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction

from apps.jobs.handlers.registry import known
from apps.jobs.models import Job
from apps.jobs.runner.process import Node, Process
from apps.jobs.runner.worker import verify
from tests.jobs import drained, events_of

pytestmark = pytest.mark.django_db


def blocks() -> tuple[str, str]:
    """What the section shows: the handler, and the code that submits."""
    text = (settings.BASE_DIR / "apps/jobs/README.md").read_text()
    section = text.partition("## Your first handler")[2].partition("\n## ")[0]
    handler, submission = re.findall(r"```python\n(.*?)```", section, re.DOTALL)[:2]
    return handler, submission


@pytest.fixture
def mailbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The handlers.py of the README, and what it leaves to the reader."""
    monkeypatch.setattr(known, "handlers", dict(known.handlers))
    box = SimpleNamespace(is_full=False, sent=[])

    def send(to: str) -> str:
        box.sent.append(to)
        return to

    names: dict[str, Any] = {"send": send, "mailbox_is_full": lambda: box.is_full}
    exec(compile(blocks()[0], "handlers.py", "exec"), names)  # noqa: S102
    verify()
    yield box


def submit_for(address: str, number: int) -> None:
    order = SimpleNamespace(mail=address, pk=number, save=lambda: None)
    exec(compile(blocks()[1], "views.py", "exec"), {"order": order, "transaction": transaction})  # noqa: S102


@pytest.mark.usefixtures("frozen_clock")
def test_handler_of_the_readme_does_what_is_said_of_it(mailbox: SimpleNamespace) -> None:
    """S1.4, S1.5: submitted in a transaction, once per key; done, discarded, or retried later."""
    process = Process(Node("worker@test", ("fast", "slow"), 4))
    submit_for("ann@example.org", 1)
    submit_for("ann@example.org", 1)
    submit_for("nobody", 2)
    drained(process, "slow")
    mailbox.is_full = True
    submit_for("ben@example.org", 3)
    drained(process, "slow")

    sent, wrong, later = Job.objects.order_by("key")
    assert mailbox.sent == ["ann@example.org"]
    assert (sent.status, sent.result) == ("succeeded", {"sent": "ann@example.org"})
    assert (wrong.status, wrong.memo, events_of(wrong.pk)) == ("failed", "no address", ["failed"])
    assert (later.status, later.max_attempts) == ("scheduled", 5)
    assert later.run_at - later.created_at == timedelta(minutes=10)
