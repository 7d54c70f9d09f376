"""The parts of the overview: panels of figures, each with a link to what it counts."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from urllib.parse import urlencode

from django.db import models
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.html import escape
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext

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
    def drawn(self) -> str:
        """As HTML; a template takes ten times as long, and pages refresh every few seconds."""
        tone = f" figure-{self.tone}" if self.tone else ""
        notes = "".join(
            [f'<span class="cell-note faint">{escape(note)}</span>' for note in self.notes if note]
        )
        head = f'class="figure{tone}" id="overview-tile-{escape(self.key)}"'
        title = escape(capfirst(str(self.title)))
        text = f"<span>{title}</span><strong>{escape(self.value)}</strong>"
        if self.url:
            return f'<a {head} href="{escape(self.url)}">{text}{notes}</a>'
        return f"<div {head}>{text}{notes}</div>"


@dataclass(frozen=True, kw_only=True)
class Panel:
    key: str
    title: str | Promise
    tiles: list[Tile] = field(default_factory=list)

    @property
    def drawn(self) -> SafeString:
        """As HTML."""
        name = f"overview-{escape(self.key)}"
        return SafeString(
            f'<section class="overview-panel" id="{name}" aria-labelledby="{name}-title">'
            f'<h2 id="{name}-title">{escape(self.title)}</h2><div class="figures">'
            f"{' '.join([tile.drawn for tile in self.tiles])}</div></section>"
        )


@dataclass(frozen=True, kw_only=True)
class Link:
    """A link in a notice, with a remark."""

    name: str
    url: str
    note: str | SafeString = ""


@dataclass(frozen=True, kw_only=True)
class Notice:
    """Something that needs attention."""

    key: str
    text: str | Promise
    links: list[Link] = field(default_factory=list)


def listed(model: type[models.Model], **filters: str) -> str:
    """The address of the list of the model, filtered."""
    url = _list(model)
    return f"{url}?{urlencode(filters)}" if filters else url


@functools.cache
def _list(model: type[models.Model]) -> str:
    meta = model._meta
    return reverse(f"admin:{meta.app_label}_{meta.model_name}_changelist")


def row_of(model: type[models.Model], key: int) -> str:
    """The address of one row of the model."""
    meta = model._meta
    return reverse(f"admin:{meta.app_label}_{meta.model_name}_change", args=[key])


def rate(count: int, minutes: float, limit: int | None = None) -> str:
    """`12.4/min`, `35/s`; `2,000+/min` when counting stopped at the limit."""
    beyond = "" if limit is None or count < limit else "+"
    each_minute = count / minutes
    if each_minute < 600:
        return gettext("%s/min") % f"{each_minute:,.1f}{beyond}"
    return gettext("%s/s") % f"{each_minute / 60:,.1f}{beyond}"
