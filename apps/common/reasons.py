"""Why something does not happen now, in a sentence that is translated where it is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias

Value: TypeAlias = str | int | datetime


def gettext_noop(text: str) -> str:
    """Mark a text for translation where it is shown; rules know no language."""
    return text


def wire_instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


@dataclass(frozen=True)
class Reason:
    """One code with its sentence, and the instant at which it could change; None = no such one."""

    code: str
    sentence: str
    values: dict[str, Value] = field(default_factory=dict)
    until: datetime | None = None

    def detail(
        self,
        translate: Callable[[str], str] = str,
        show: Callable[[datetime], str] = wire_instant,
    ) -> str:
        """The sentence filled in, in English unless `translate` (gettext, say) knows better."""
        shown = {
            name: show(value) if isinstance(value, datetime) else value
            for name, value in self.values.items()
        }
        return translate(self.sentence).format(**shown)
