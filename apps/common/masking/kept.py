"""Objects some of whose secrets are as they were stored before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Kept(dict[str, Any]):
    """Such an object; `shown` has masks for these secrets.

    Schemas are asked about what is shown: whoever sees masks may write schemas, and would learn a
    secret letter by letter from what is refused.
    """

    def __init__(self, value: Mapping[str, Any], shown: Mapping[str, Any]) -> None:
        super().__init__(value)
        self.shown = shown
