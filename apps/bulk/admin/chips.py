"""The filter of a run, in the words of the lists of its rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any

from django.utils.text import capfirst
from django.utils.translation import gettext

from apps.bulk.services.selection import Selection
from apps.common.admin.display import labelled, listed, plain_time, shown_text, translate
from apps.common.masking import MASK
from apps.jobs.admin.filters import words_of_error

MAX_CHIP = 200


def chips(selection: Selection, user: Any, *, hidden: Collection[str] = ()) -> Iterator[str]:
    """Each field of the filter with its values; those of the `hidden` ones are masked."""
    for part in selection.parts():
        value = None
        if part.name == "error_key":
            value = words_of_error(part.values[0], user)
        title = gettext("Error") if value else capfirst(translate(part.title))
        value = MASK if part.name in hidden else value or listed(map(_value, part.values))
        yield labelled(title, shown_text(value, limit=MAX_CHIP))


def _value(value: Any) -> str:
    return plain_time(value) if isinstance(value, datetime) else str(value)
