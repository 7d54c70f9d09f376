"""Rows of a form that are sent all together, and whose buttons send the form as well: so they need
no script.

`rows-was` has the name of each row in what is edited, "" of a new one, as a list in JSON; what was
typed in row 3 begins with `rows-3-`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.common.readers import read_integer

# An action on a row: `up-3`.
UP, DOWN, DROP, ADD = "up", "down", "drop", "add"


def row_input(**attrs: Any) -> forms.TextInput:
    """A box in a row."""
    return forms.TextInput(attrs={"class": "search-input", "autocomplete": "off", **attrs})


class OneRow(forms.Form):
    """The form of one row of those with the `prefix`; `had` is the row in what is edited, None for
    a new one, and `number` counts from 0."""

    # What a screen reader says of a field.
    said = _("%(field)s of row %(number)d")

    def __init__(self, data: Any, *, prefix: str, number: int, had: Any, initial: Any) -> None:
        super().__init__(data, prefix=f"{prefix}-{number}", initial=initial)
        self.number, self.had = number, had
        for field in self.fields.values():
            names = {"field": field.label, "number": number + 1}
            field.widget.attrs["aria-label"] = self.said % names

    @property
    def was(self) -> str:
        """The name of the row in what is edited."""
        raise NotImplementedError(f"{type(self).__name__} must define was")


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a form whose names begin with the prefix, at most so many; `verbs` is before the
    actions on them, where a form has rows of several kinds."""

    prefix: str
    form: type[OneRow]
    limit: int
    verbs: str = ""

    @property
    def was(self) -> str:
        """The name of the field with the names of the rows."""
        return f"{self.prefix}-was"

    def is_command(self, command: str) -> bool:
        """Whether this is an action on one of the rows."""
        verb = command.removeprefix(self.verbs).partition("-")[0]
        return command.startswith(self.verbs) and verb in (UP, DOWN, DROP, ADD)

    def names_in(self, data: Any) -> list[str]:
        """The names of the rows before the edit."""
        try:
            found = json.loads(data.get(self.was, "[]"))
        except ValueError:
            return []
        names = found if isinstance(found, list) else []
        return [name if isinstance(name, str) else "" for name in names[: self.limit]]

    def was_in(self, rows: Sequence[OneRow], data: Any) -> str:
        """The names of the rows before the edit, as JSON that the form sends along."""
        is_sent = bool(rows) and rows[0].is_bound
        had = [row.was for row in rows if row.had is not None]
        return json.dumps(self.names_in(data) if is_sent else had)

    def rearrange(self, data: Any, command: str) -> None:
        """Add, move or drop a row in what was sent."""
        names = self.names_in(data)
        numbers = self._rearranged([*range(len(names))], command)
        moved = {
            f"{self.prefix}-{place}-{name}": data.get(f"{self.prefix}-{number}-{name}")
            for place, number in enumerate(numbers)
            for name in self.form.base_fields
            if f"{self.prefix}-{number}-{name}" in data
        }
        for key in [key for key in data if key.startswith(f"{self.prefix}-")]:
            del data[key]
        data.update(moved)
        data[self.was] = json.dumps([names[n] if n < len(names) else "" for n in numbers])

    def _rearranged(self, numbers: list[int], command: str) -> Sequence[int]:
        if not self.is_command(command):
            return numbers
        verb, _dash, number = command.removeprefix(self.verbs).partition("-")
        place = read_integer(number)
        if verb == ADD and len(numbers) < self.limit:
            return [*numbers, len(numbers)]
        if place is None or not 0 <= place < len(numbers):
            return numbers
        if verb == DROP:
            return numbers[:place] + numbers[place + 1 :]
        other = {UP: place - 1, DOWN: place + 1}.get(verb, place)
        if 0 <= other < len(numbers):
            numbers[place], numbers[other] = numbers[other], numbers[place]
        return numbers
