"""Texts that look or sound alike are told apart in the same way by both databases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db.models import CharField, TextField

pytestmark = [pytest.mark.django_db, pytest.mark.both]

# A column of Django's own, unique.
TEXTS = (
    *("🔥 sale", "🍀 sale", "Filiale 𠮷野", "Filiale 吉野", "a\nb", "(?i)a"),
    *"sale SALE 𐐀 𐐨 straße STRASSE strasse STRAẞE café CAFÉ cafe\u0301 cafe Äpfel äpfel".split(),
    *"ΣΑΣ σας σασ Я я ǅ ǆ k K \u212a s ſ i I İ ı ﬀ ff ａ Ａ".split(),
    *"a%b a_b a*b a?b a[b] a^b$ a.b a\\b".split(),
)
Model = Callable[[str, str], bool]


def folded(text: str) -> list[tuple[bool, str]]:
    return [(letter.isascii(), letter.casefold()) for letter in text]


def found_in(inner: list[Any], text: list[Any], *, first: bool = False, last: bool = False) -> bool:
    most = len(text) - len(inner)
    places = [at for at in range(most + 1) if text[at : at + len(inner)] == inner]
    return bool(places) and (not first or 0 in places) and (not last or most in places)


LOOKUPS: dict[str, Model] = {
    "exact": lambda inner, text: inner == text,
    "contains": lambda inner, text: inner in text,
    "startswith": lambda inner, text: text.startswith(inner),
    "endswith": lambda inner, text: text.endswith(inner),
    "iexact": lambda inner, text: folded(inner) == folded(text),
    "icontains": lambda inner, text: found_in(folded(inner), folded(text)),
    "istartswith": lambda inner, text: found_in(folded(inner), folded(text), first=True),
    "iendswith": lambda inner, text: found_in(folded(inner), folded(text), last=True),
}
# A regular expression is as exact as it says, and nothing searches by it.
OTHERS = {"gt", "gte", "in", "iregex", "isnull", "lt", "lte", "range", "regex"}


def test_lookups_of_texts_are_exact_or_fold_case_and_nothing_else(
    subtests: pytest.Subtests,
) -> None:
    Group.objects.all().delete()
    Group.objects.bulk_create(Group(name=text) for text in TEXTS)
    for name, meets in LOOKUPS.items():
        for wanted in (*TEXTS, "SAL", "APF", "É", "\\", "%", "*", "b]"):
            with subtests.test(lookup=name, wanted=wanted):
                found = Group.objects.filter(**{f"name__{name}": wanted})
                expected = {text for text in TEXTS if meets(wanted, text)}
                assert {*found.values_list("name", flat=True)} == expected


@pytest.mark.parametrize("field", [CharField, TextField])
def test_each_lookup_of_texts_has_a_rule(field: Any) -> None:
    from django.db.models import Lookup

    lookups = {name for name, each in field.get_lookups().items() if issubclass(each, Lookup)}
    assert lookups == LOOKUPS.keys() | OTHERS
