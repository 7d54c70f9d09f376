"""I53: entries of one batch, each with its own facts and no more; and their labels for people."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from apps.common import clock
from apps.journal.admin import words
from apps.journal.models import JournalEntry
from apps.journal.services import Entry, error_key, write
from tests.frozen import FrozenClock
from tests.scenes import play_morning

pytestmark = pytest.mark.both


@pytest.mark.django_db
def test_entries_of_a_batch_fill_columns_of_their_own() -> None:
    now = clock.now()
    later = now + timedelta(seconds=1)
    with transaction.atomic():
        write(
            [
                Entry(at=now, source="job", subject_id=1, event="failed", error="Boom 7\nline"),
                Entry(at=later, source="plan", subject_id=2, event="edit", data={"é": [1]}),
                Entry(at=now, source="job", subject_id=3, event="failed", attempt=0, error_key="k"),
            ]
        )

    failed, edit, plain = JournalEntry.objects.order_by("subject_id")
    assert (failed.at, failed.error, failed.data) == (now, "Boom 7\nline", None)
    assert failed.error_key == error_key("Boom 8")
    assert (edit.at, edit.source, edit.error, edit.error_key) == (later, "plan", "", "")
    assert (edit.data, edit.attempt) == ({"é": [1]}, None)
    assert (plain.at, plain.attempt, plain.error_key, plain.data) == (now, 0, "k", None)


@pytest.mark.django_db
def test_what_columns_cannot_hold_is_cut() -> None:
    long = "one " * 5_000
    entry = Entry(
        at=clock.now(), source="job", subject_id=1, event="end", reason=long, actor=long, error=long
    )
    with transaction.atomic():
        write([entry])

    [kept] = JournalEntry.objects.all()
    assert (len(kept.reason), len(kept.actor), len(kept.error)) == (499, 160, 15_999)


def test_key_of_an_error_says_nothing_of_its_secrets() -> None:
    """Whoever sees masks could else look for the key of a guess."""
    for known, guess in (
        ("login failed, password: hunter", "login failed, password: dragon"),
        ("GET https://ann:hunter@shop.example/", "GET https://ann:dragon@shop.example/"),
    ):
        assert error_key(known) == error_key(guess)
        assert error_key(known) != error_key(known.replace("o", "u"))
    assert error_key("no password: x") != error_key("no user: x")


def test_events_states_and_facts_of_a_working_day_have_words(
    db: None, frozen_clock: FrozenClock
) -> None:
    """I55: an audit row says who did what and when, from which state to which."""
    play_morning(frozen_clock)
    entries = list(JournalEntry.objects.all())
    states = {state for entry in entries for state in (entry.from_state, entry.to_state)}
    data = [entry.data or {} for entry in entries]
    facts = {name for named in data for part in (named, *named.values()) for name in _names(part)}

    assert {entry.event for entry in entries} - words.EVENTS.keys() == set()
    assert states - words.STATES.keys() == {""}
    assert facts - words.NAMES.keys() - {"before", "after", "undo", "was"} == {"photos", "sharp"}


def _names(part: object) -> set[str]:
    return set(part) if isinstance(part, dict) else set()
