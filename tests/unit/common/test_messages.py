"""Messages: English for programs, any language for a page."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta, timezone

from apps.common.messages import Message, joined, packed, unpacked
from apps.common.messages import Message as _

AT = datetime(2026, 3, 2, 9, tzinfo=UTC)
GERMAN = {
    "{name} has {count:,} of {what}.": "Von {what} hat {name} {count:,}.",
    "all apples": "allen Äpfeln",
    "Due at {at}.": "Fällig um {at}.",
}


def test_message_is_english_text_to_programs() -> None:
    message = _("{name} has {count:,} of {what}.", name="uid_a", count=1200, what=_("all apples"))

    assert message == "uid_a has 1,200 of all apples."
    assert json.dumps([message]) == '["uid_a has 1,200 of all apples."]'


def test_page_translates_a_message_and_the_messages_within() -> None:
    message = _("{name} has {count:,} of {what}.", name="uid_a", count=1200, what=_("all apples"))

    assert message.translated(GERMAN.__getitem__) == "Von allen Äpfeln hat uid_a 1,200."


def test_instants_are_formatted_as_on_the_wire_or_as_the_page_wants() -> None:
    message = _("Due at {at}.", at=AT.astimezone(timezone(timedelta(hours=8))))

    assert message == "Due at 2026-03-02T09:00:00Z."
    assert message.translated(GERMAN.__getitem__, "{:%H:%M}".format) == "Fällig um 17:00."


def test_message_that_was_stored_is_translated_when_it_is_read() -> None:
    inner = _("{name} has {count:,} of {what}.", name="uid_a", count=1200, what=_("all apples"))
    message = _("{what} {at}", what=inner, at=AT)
    stored = json.loads(json.dumps(packed(message)))

    german = unpacked(stored).translated({**GERMAN, "{what} {at}": "{at}: {what}"}.__getitem__)

    assert german == "2026-03-02T09:00:00Z: Von allen Äpfeln hat uid_a 1,200."
    assert (packed("{name} is gone"), unpacked("{name} is gone")) == ("{name} is gone",) * 2


def test_braces_stay_in_params_and_in_templates_without_params() -> None:
    assert _('Write {"a": 1}.') == 'Write {"a": 1}.'
    assert _("No field {name}.", name="{x}") == "No field {x}."


def test_copy_of_a_message_can_be_translated() -> None:
    again = copy.deepcopy(_("No field {name}.", name="x"))

    assert again == "No field x."
    assert again.translated({"No field {name}.": "Kein Feld {name}."}.__getitem__) == "Kein Feld x."


def test_several_messages_are_one_sentence_with_a_clean_end() -> None:
    texts = {
        "{first}; {rest}": "{first}；{rest}",
        "No {name}.": "没有{name}。",
        "Too late.": "太晚。",
    }
    text = joined([Message("No {name}.", name="key"), "it is long", Message("Too late.")])

    assert text == "No key; it is long; Too late."
    assert isinstance(text, Message)
    assert text.translated(lambda each: texts.get(each, each)) == "没有key；it is long；太晚。"
    assert joined(["a.", "b"]) == "a; b."
    assert joined(["alone"]) == "alone"
