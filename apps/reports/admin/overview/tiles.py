"""The parts of the overview: panels of figures, each with a link to what it counts."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext

from apps.common.admin.html import attribute, joined, noted

WARNING, DANGER = "warning", "danger"


@dataclass(frozen=True, kw_only=True)
class Tile:
    """One figure with remarks, a line each. `key` stays the same at each refresh; without `url` it
    has no link."""

    key: str
    title: str | Promise
    value: str
    url: str = ""
    notes: tuple[str | Promise, ...] = ()
    tone: str = ""

    @property
    def drawn(self) -> SafeString:
        """As HTML; a template takes ten times as long, and pages refresh every few seconds."""
        title = capfirst(str(self.title))
        text = format_html("<span>{}</span><strong>{}</strong>", title, self.value)
        for each in self.notes:
            text = noted(text, each)
        return format_html(
            '<{tag} class="figure{tone}" id="overview-tile-{key}"{href}>{text}</{tag}>',
            tag="a" if self.url else "div",
            tone=f" figure-{self.tone}" if self.tone else "",
            key=self.key,
            href=attribute("href", self.url),
            text=text,
        )


@dataclass(frozen=True, kw_only=True)
class Panel:
    key: str
    title: str | Promise
    tiles: list[Tile] = field(default_factory=list)

    @property
    def drawn(self) -> SafeString:
        """As HTML."""
        return format_html(
            '<section class="overview-panel" id="{name}" aria-labelledby="{name}-title">'
            '<h2 id="{name}-title">{title}</h2><div class="figures">{tiles}</div></section>',
            name=f"overview-{self.key}",
            title=self.title,
            tiles=joined((tile.drawn for tile in self.tiles), " "),
        )


def rate(count: int, minutes: float, limit: int | None = None) -> str:
    """`12.4/min`, `35/s`; `2,000+/min` when counting stopped at the limit."""
    beyond = "" if limit is None or count < limit else "+"
    each_minute = count / minutes
    if each_minute < 600:
        return gettext("%s/min") % f"{each_minute:,.1f}{beyond}"
    return gettext("%s/s") % f"{each_minute / 60:,.1f}{beyond}"
