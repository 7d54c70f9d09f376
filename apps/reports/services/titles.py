"""The titles of tasks that reports name by their labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from apps.common.admin.display import shown_text
from apps.common.chunks import chunks
from apps.common.readers import read_number
from apps.dispatch.models import TASK_MODELS

MAX_TITLE = 80
# A file has all tasks of a period, and SQLite takes 32,766 parameters.
_AT_ONCE = 1_000


def titles(labels: Sequence[str]) -> dict[str, str]:
    """The titles of tasks by label (`once:12`); purged tasks are left out."""
    found: dict[str, str] = {}
    for source, model in TASK_MODELS.items():
        numbers = [*numbers_of(labels, source)]
        for part in chunks(numbers, _AT_ONCE):
            some = model.objects.filter(pk__in=part)
            rows = some.values_list("pk", "title")
            found |= {f"{source}:{pk}": shown_text(title, limit=MAX_TITLE) for pk, title in rows}
    return found


def numbers_of(labels: Sequence[str], source: str) -> Iterator[int]:
    for label in labels:
        kind, _colon, text = label.partition(":")
        if kind == source and (number := read_number(text)) is not None:
            yield number
