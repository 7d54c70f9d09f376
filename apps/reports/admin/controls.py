"""The controls of a report: links to other reports and two forms that need no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise

from apps.common import clock
from apps.common.zones import zone_names
from apps.reports.rules.outcomes import FLOW
from apps.reports.services.choice import PRESET_TITLES, SOURCES, TABS, Asked, Choice
from apps.reports.services.summary import MINUTE, THROUGH_TIME, TIMES

# The parameters that the form asks for.
_TYPED = frozenset({"period", "from", "to", "zone"})


@dataclass(frozen=True)
class Option:
    title: str | Promise
    url: str
    is_chosen: bool


def options(asked: Asked, name: str, known: Mapping[str, str | Promise]) -> list[Option]:
    """The values of a part of the address, each with the address that has it."""
    chosen = getattr(asked, name)
    return [
        Option(title, asked.query(**{name: each}), each == chosen) for each, title in known.items()
    ]


def controls(choice: Choice, groups: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The options of each control, and the parameters that the form keeps."""
    length = choice.end - choice.start
    kept, inputs = choice.parameters(), choice.inputs
    return {
        "sources": [
            Option(
                title,
                choice.query(
                    source=source,
                    by=groups[source][0] if choice.is_by_group else choice.by,
                    only=None,
                    flow=choice.only[1] if choice.only and choice.source == FLOW else choice.flow,
                    sort="",
                ),
                source == choice.source,
            )
            for source, title in SOURCES.items()
            if source in groups
        ],
        "presets": options(choice, "preset", PRESET_TITLES),
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
        "all_groups": choice.query(by=choice.only[0], only=None)
        if choice.only
        else choice.query(flow=""),
        **inputs,
        "keeps": {name: text for name, text in kept.items() if name not in _TYPED}
        | inputs["keeps"],
        "zones": sorted(zone_names()),
    }
