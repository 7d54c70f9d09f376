"""Names what rows are part of, on their pages and for the filter that leads to all its parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import column, labelled, shown_text, translate
from apps.common.admin.filters import LedToFilter
from apps.common.admin.html import link
from apps.common.parts import Parts
from apps.common.readers import read_number


def read_wholes(rows: Iterable[Any], parts: Parts, person: Any) -> None:
    """Give each row the `whole` that it is part of; None where the person sees none."""
    some = list(rows)
    found = parts.named((row.part_of for row in some), person)
    for row in some:
        row.whole = found.get(row.part_of)


@column(_("part of"))
def part_of(row: Any) -> SafeString | None:
    """The words of its `whole` with a link."""
    if row.whole is None:
        return None
    return link(row.whole.url, shown_text(translate(row.whole.words), limit=300))


class PartFilter(LedToFilter):
    """The filter by what rows are part of, in words instead of its number."""

    parts: ClassVar[Parts]

    def in_words(self) -> Iterator[tuple[str, str]]:
        number = read_number(str(self.used_parameters.get("part_of", "")))
        whole = self.parts.named([number], self.request.user).get(number or 0)
        if whole is None:
            yield from super().in_words()
        else:
            yield "part_of", labelled(capfirst(str(self.title)), translate(whole.words))
