"""Why something does not happen now, in a sentence that is translated where it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from apps.common.sentences import Sentence


@dataclass(frozen=True)
class Reason:
    """One code with its sentence, and the instant at which it could change; None = no such one."""

    code: str
    detail: Sentence
    until: datetime | None = None
