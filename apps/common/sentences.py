"""Sentences of rules and services, which know no language: English that a page can translate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import reduce
from typing import Any, TypeAlias

Value: TypeAlias = str | int | float | datetime


def wire_instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


class Sentence(str):
    """An English text that remembers its template and what was filled in.

    To clients, logs and databases it is that text. A page says it in its reader's language by
    `in_words_of`. Values may be sentences themselves, and instants are shown as on the wire.
    Without values the template is the text as it stands, braces and all.
    """

    template: str
    values: Mapping[str, Value]

    def __new__(cls, template: str, /, **values: Value) -> Sentence:
        made = super().__new__(cls, _filled(template, values, str, wire_instant))
        made.template, made.values = template, values
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[str], Mapping[str, Value]]:
        return (self.template,), self.values

    def text(
        self,
        translate: Callable[[str], str] = str,
        show: Callable[[datetime], str] = wire_instant,
    ) -> str:
        """The sentence as `translate` (gettext, say) has it, its instants as `show` tells them."""
        return _filled(translate(self.template), self.values, translate, show)


def sentence(template: str, /, **values: Value) -> Sentence:
    """`template` with `{names}` for the values; import it as `_`, so that catalogues find it."""
    return Sentence(template, **values)


_ = sentence


def together(sentences: Iterable[str]) -> str:
    """Some sentences, at least one, as one text."""
    return reduce(lambda first, rest: _("{first} {rest}", first=first, rest=rest), sentences)


def in_words_of(
    translate: Callable[[str], str],
    text: str,
    show: Callable[[datetime], str] = wire_instant,
) -> str:
    """A text that may be a sentence, as a page shows it; any other text stays as it is."""
    return text.text(translate, show) if isinstance(text, Sentence) else text


def _filled(
    template: str,
    values: Mapping[str, Value],
    translate: Callable[[str], str],
    show: Callable[[datetime], str],
) -> str:
    if not values:
        return template
    shown: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Sentence):
            shown[name] = value.text(translate, show)
        else:
            shown[name] = show(value) if isinstance(value, datetime) else value
    return template.format(**shown)
