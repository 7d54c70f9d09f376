"""The history of a row as an ordered list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.template.loader import render_to_string
from django.utils.functional import Promise
from django.utils.safestring import SafeString

from apps.common.admin.display import moment_time


@dataclass(frozen=True, kw_only=True)
class Moment:
    """One entry of a timeline; every text is shown escaped.

    `icon` is a name of the icon font, `colour` one of display.COLOURS. `facts` are further
    (name, value) pairs, `details` a text of many lines that is folded up.
    """

    at: datetime
    text: str
    icon: str = "circle"
    colour: str = ""
    actor: str = ""
    reason: str = ""
    facts: Sequence[tuple[str, object]] = field(default_factory=tuple)
    details: str = ""

    @property
    def shown_at(self) -> SafeString:
        return moment_time(self.at)


def render_timeline(moments: Sequence[Moment], when_empty: str | Promise = "") -> SafeString:
    """The moments in their order, as HTML; `when_empty` is said when there is none."""
    context = {"moments": moments, "when_empty": when_empty}
    return render_to_string("admin/includes/timeline.html", context)
