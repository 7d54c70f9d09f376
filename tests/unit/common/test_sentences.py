"""Sentences that rules and services say: English for programs, any language for a page."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta, timezone

from apps.common.sentences import Sentence, in_words_of
from apps.common.sentences import sentence as _

AT = datetime(2026, 3, 2, 9, tzinfo=UTC)
GERMAN = {
    "{name} has {count:,} of {what}.": "Von {what} hat {name} {count:,}.",
    "all apples": "allen Äpfeln",
    "Due at {at}.": "Fällig um {at}.",
}


def test_to_programs_a_sentence_is_its_english_text() -> None:
    told = _("{name} has {count:,} of {what}.", name="uid_a", count=1200, what=_("all apples"))

    assert told == "uid_a has 1,200 of all apples."
    assert json.dumps([told]) == '["uid_a has 1,200 of all apples."]'


def test_a_page_says_it_in_its_own_words_with_what_is_within() -> None:
    told = _("{name} has {count:,} of {what}.", name="uid_a", count=1200, what=_("all apples"))

    assert in_words_of(GERMAN.__getitem__, told) == "Von allen Äpfeln hat uid_a 1,200."
    assert in_words_of(GERMAN.__getitem__, "as it stands") == "as it stands"


def test_instants_are_told_as_on_the_wire_or_as_the_page_shows_them() -> None:
    told = _("Due at {at}.", at=AT.astimezone(timezone(timedelta(hours=8))))

    assert told == "Due at 2026-03-02T09:00:00Z."
    assert in_words_of(GERMAN.__getitem__, told, "{:%H:%M}".format) == "Fällig um 17:00."


def test_braces_in_a_template_without_values_and_in_values_stand() -> None:
    assert _('Write {"a": 1}.') == 'Write {"a": 1}.'
    assert _("No field {name}.", name="{x}") == "No field {x}."


def test_a_copy_of_a_sentence_is_one() -> None:
    again = copy.deepcopy(_("No field {name}.", name="x"))

    assert again == "No field x."
    assert again.text({"No field {name}.": "Kein Feld {name}."}.__getitem__) == "Kein Feld x."


def test_a_template_may_be_chosen_first_and_filled_in_later() -> None:
    assert Sentence(_("Due at {at}."), at=AT) == "Due at 2026-03-02T09:00:00Z."
