"""Every word that the services write into the journal has a label for people."""

from __future__ import annotations

import pytest

from apps.journal.admin import words
from apps.journal.models import JournalEntry
from tests.frozen import FrozenClock
from tests.scenes import play_morning

pytestmark = pytest.mark.both


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
    assert facts - words.NAMES.keys() - {"before", "after"} == {"photos", "sharp"}


def _names(part: object) -> set[str]:
    return set(part) if isinstance(part, dict) else set()
