"""The states of a job and the arrows between them as a drawing, made from the arrow table."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from apps.jobs.admin.labels import ARROW_WORDS
from apps.jobs.models import Job
from apps.jobs.rules import transitions as t

Pair = tuple[str, str]

BOX_WIDTH, BOX_HEIGHT = 116, 40
WIDTH, HEIGHT = 720, 292


class Point(NamedTuple):
    x: float
    y: float


# The middles of the boxes: what waits at the left, what is over at the right.
PLACES = {
    t.SCHEDULED: Point(90, 80),
    t.READY: Point(90, 220),
    t.RUNNING: Point(345, 150),
    t.SUCCEEDED: Point(620, 50),
    t.FAILED: Point(620, 150),
    t.CANCELLED: Point(620, 250),
}
# Which way round the others a curve goes: its control point, where a plain bend would cross a box.
WAYS = {
    (t.SCHEDULED, t.SUCCEEDED): Point(340, -8),
    (t.SCHEDULED, t.FAILED): Point(380, 52),
    (t.SCHEDULED, t.CANCELLED): Point(300, 250),
    (t.READY, t.SUCCEEDED): Point(300, 60),
    (t.READY, t.FAILED): Point(380, 240),
    (t.READY, t.CANCELLED): Point(340, 272),
    (t.CANCELLED, t.READY): Point(360, 322),
    (t.FAILED, t.READY): Point(400, 330),
    (t.SUCCEEDED, t.READY): Point(480, 350),
}
BEND = 26


@dataclass(frozen=True, kw_only=True)
class Box:
    name: str
    text: str
    x: float
    y: float
    css: str


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One or more arrows between the same two states."""

    path: str
    head: str
    meaning: str
    css: str


def pairs() -> dict[Pair, list[t.Arrow]]:
    """The arrows of the table by the states they join."""
    found: dict[Pair, list[t.Arrow]] = {}
    for arrow in t.ARROWS.values():
        for source in arrow.sources:
            for target in arrow.targets:
                if source != target:
                    found.setdefault((source, target), []).append(arrow)
    return found


def state_picture(status: str, taken: Collection[Pair]) -> SafeString:
    """The picture with the present state marked, and the arrows that the job has taken."""
    words = dict(Job.Status.choices)
    curves = [
        _curve(pair, arrows, status, pair in taken, words) for pair, arrows in pairs().items()
    ]
    context = {
        "width": WIDTH,
        "height": HEIGHT,
        "box_width": BOX_WIDTH,
        "box_height": BOX_HEIGHT,
        # What is marked is drawn last, above the others.
        "curves": sorted(curves, key=lambda curve: len(curve.css)),
        "boxes": [*_boxes(status, taken, words)],
        "label": _("States of a job; now: %s") % words.get(status, status),
        "ways": ways_from(status),
    }
    return SafeString(render_to_string("admin/includes/state_picture.html", context))


def ways_from(status: str) -> list[tuple[str, str]]:
    """Who can do what to a job in this state, and where that leads."""
    words = dict(Job.Status.choices)
    who = {t.WORKER: _("Worker"), t.SYSTEM: _("Platform"), t.OPERATOR: _("Operator")}
    lines = []
    for by, name in who.items():
        arrows = [a for a in t.ARROWS.values() if a.by == by and status in a.sources]
        rules = [
            f"{ARROW_WORDS[arrow.name]} → {_or(str(words[target]) for target in arrow.targets)}"
            for arrow in arrows
        ]
        if rules:
            lines.append((name, "; ".join(rules)))
    return lines


def _or(names: Iterator[str]) -> str:
    return " / ".join(names)


def _boxes(status: str, taken: Collection[Pair], words: Mapping[str, object]) -> Iterator[Box]:
    seen = {state for pair in taken for state in pair}
    for name, place in PLACES.items():
        css = " state-here" if name == status else " state-seen" if name in seen else ""
        yield Box(
            name=name,
            text=capfirst(str(words[name])),
            x=place.x - BOX_WIDTH / 2,
            y=place.y - BOX_HEIGHT / 2,
            css=css,
        )


def _curve(
    pair: Pair, arrows: list[t.Arrow], status: str, is_taken: bool, words: Mapping[str, object]
) -> Curve:
    source, target = (PLACES[name] for name in pair)
    control = WAYS.get(pair) or _bent(source, target)
    start, end = _edge(source, control), _edge(target, control)
    css = " arrow-taken" if is_taken else " arrow-open" if pair[0] == status else ""
    named = ", ".join(str(ARROW_WORDS[arrow.name]) for arrow in arrows)
    return Curve(
        path=f"M{_at(start)}Q{_at(control)} {_at(end)}",
        head=_head(control, end),
        meaning=f"{words[pair[0]]} → {words[pair[1]]}: {named}",
        css=css,
    )


def _at(point: Point) -> str:
    return f"{point.x:.1f} {point.y:.1f}"


def _bent(source: Point, target: Point) -> Point:
    """A control point beside the middle, on the right of the way, so that two ways lie apart."""
    across, down = target.x - source.x, target.y - source.y
    length = math.hypot(across, down)
    middle = Point((source.x + target.x) / 2, (source.y + target.y) / 2)
    return Point(middle.x - down / length * BEND, middle.y + across / length * BEND)


def _edge(middle: Point, towards: Point) -> Point:
    """Where the line from the middle of a box leaves it."""
    across, down = towards.x - middle.x, towards.y - middle.y
    gap = 3.0
    scale = min(
        (BOX_WIDTH / 2 + gap) / abs(across) if across else math.inf,
        (BOX_HEIGHT / 2 + gap) / abs(down) if down else math.inf,
    )
    return Point(middle.x + across * scale, middle.y + down * scale)


def _head(control: Point, end: Point) -> str:
    """The three corners of an arrow's head."""
    angle = math.atan2(end.y - control.y, end.x - control.x)
    corners = [end]
    for turn in (2.65, -2.65):
        corners.append(
            Point(end.x + 9 * math.cos(angle + turn), end.y + 9 * math.sin(angle + turn))
        )
    return " ".join(f"{corner.x:.1f},{corner.y:.1f}" for corner in corners)
