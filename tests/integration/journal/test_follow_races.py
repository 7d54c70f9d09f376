"""S0.30: real transactions that commit late or roll back, and a process killed while it sends."""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connections, transaction
from django.test import override_settings

from apps.common import clock
from apps.journal.conf import SinkAddress
from apps.journal.models import JournalEntry
from apps.journal.services import Entry, carry, follow, minutes, write
from apps.journal.services.follow import Position, Seen
from tests.journal import Remembering
from tests.kills import killed_at

pytestmark = pytest.mark.both

WRITERS = 4
TRANSACTIONS = 60


class _RolledBackError(Exception):
    pass


@pytest.mark.mariadb
@pytest.mark.django_db(transaction=True)
@override_settings(JOURNAL_GRACE=timedelta(milliseconds=100), JOURNAL_LATE=timedelta(seconds=30))
def test_follower_beside_writers_loses_and_repeats_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """5 % roll back, some commit long after their ids were made; a minute is a second here."""
    for module in (minutes, follow):
        monkeypatch.setattr(module, "MINUTE", 1)
    at, seen, sink = Position.at_present(clock.now()), Seen(), Remembering()

    def run_writer(seed: int) -> None:
        chance = random.Random(seed)
        for number in range(TRANSACTIONS):
            entry = Entry(at=clock.now(), source="job", subject_id=number, event="succeeded")
            try:
                with transaction.atomic():
                    write([entry] * chance.randint(1, 3))
                    time.sleep(chance.choice([0, 0, 0, 0.01, 0.05, 0.4]))
                    if chance.random() < 0.05:
                        raise _RolledBackError
            except _RolledBackError:
                continue
        connections.close_all()

    writers = [threading.Thread(target=run_writer, args=[seed]) for seed in range(WRITERS)]
    for writer in writers:
        writer.start()
    over = 0.0
    while time.monotonic() < over or not over:
        follow.follow(
            at, sink.deliver, lambda: None, seen=seen, until=clock.now() + timedelta(seconds=5)
        )
        if not over and not any(writer.is_alive() for writer in writers):
            # So long that the last minutes have been compared once more.
            over = time.monotonic() + 3
    for writer in writers:
        writer.join()

    committed = set(JournalEntry.objects.values_list("pk", flat=True))
    assert len(committed) > WRITERS * TRANSACTIONS
    assert set(sink.ids) == committed
    assert len(sink.ids) == len(committed)


@pytest.mark.mariadb
@pytest.mark.django_db(transaction=True)
@override_settings(JOURNAL_GRACE=timedelta())
def test_turn_killed_at_any_statement_loses_nothing(tmp_path: Path) -> None:
    address = SinkAddress("files", f"file://{tmp_path}")

    def turn() -> None:
        carry.carry(address, until=clock.now() + timedelta(seconds=5))

    turn()
    for statement in itertools.count(1):
        with transaction.atomic():
            write([Entry(at=clock.now(), source="job", subject_id=1, event="failed")] * 5)
        if not killed_at(statement, turn):
            break
    turn()

    assert statement > 3
    times = Counter(
        json.loads(line)["id"]
        for path in tmp_path.glob("*.jsonl")
        for line in path.read_text().splitlines()
    )
    committed = JournalEntry.objects.values_list("pk", flat=True)
    assert set(times) == {str(number) for number in committed}
    assert max(times.values()) <= statement
