"""The controls of a report: links to other reports and two forms that need no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise

from apps.common import clock
from apps.common.zones import zone_names
from apps.reports.services.choice import PRESETS, SOURCES, TABS, Choice, input_value, unchanged
from apps.reports.services.summary import MINUTE, THROUGH_TIME, TIMES

# What the form asks for.
_TYPED = frozenset({"period", "from", "to", "zone"})


@dataclass(frozen=True)
class Option:
    title: str | Promise
    url: str
    is_chosen: bool


def controls(choice: Choice, groups: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The options of each control, and the parameters that the form keeps."""
    length = choice.end - choice.start
    kept = choice.parameters()
    return {
        "sources": [
            Option(
                title,
                choice.query(
                    source=source,
                    by=groups[source][0] if choice.is_by_group else choice.by,
                    only=None,
                    sort="",
                ),
                source == choice.source,
            )
            for source, title in SOURCES.items()
        ],
        "presets": [
            Option(title, choice.query(preset=name), name == choice.preset)
            for name, (_length, title) in PRESETS.items()
        ],
        "tabs": [
            Option(
                TABS[by],
                choice.query(by=by, sort="", only=choice.only if by in THROUGH_TIME else None),
                by == choice.by,
            )
            for by in (*groups[choice.source], *([MINUTE] if choice.has_minutes else []), *TIMES)
        ],
        "earlier": choice.query(preset="", start=choice.start - length, end=choice.start),
        "later": choice.query(preset="", start=choice.end, end=choice.end + length)
        if choice.end < clock.now()
        else "",
        "all_groups": choice.query(by=choice.only[0], only=None) if choice.only else "",
        "keeps": {
            **{name: text for name, text in kept.items() if name not in _TYPED},
            **unchanged(choice.preset, choice.start, choice.end, choice.zone),
        },
        "from": input_value(choice.start, choice.zone),
        "to": input_value(choice.end, choice.zone),
        "zones": sorted(zone_names()),
    }
