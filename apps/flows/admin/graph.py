"""The drawing of a flow or of one of its runs: templates/admin/flows/graph.html."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.flows.admin.step_words import ICONS, People, condition_of, line_of
from apps.flows.rules.definition import Definition
from apps.flows.rules.picture import ALL, ALWAYS, EACH, FAILURE, IF, Picture, Way, picture
from apps.flows.services.masks import without_secrets

WORDS: Mapping[str, str | Promise] = {
    EACH: _("each"),
    ALL: _("all"),
    FAILURE: _("on failure"),
    ALWAYS: _("in any case"),
}


class BoxOfRun(NamedTuple):
    """The box of a step in a run: the address it leads to, the look of its state (`active`,
    `succeeded`, `failed`, `skipped`, `cancelled`, `blocked`), its bar as looks and percent, and a
    line below."""

    href: str = ""
    state: str = ""
    parts: Sequence[tuple[str, float]] = ()
    line: str | SafeString = ""


def graph_of(
    definition: Definition, people: People, of_run: Mapping[str, BoxOfRun] | None = None
) -> dict[str, Any]:
    """The `graph` of the template; with `of_run`, by the name of the step, that of a run."""
    definition = without_secrets(definition)
    drawn = picture(definition)
    ways = [_way(way, drawn.aside, of_run or {}) for way in drawn.ways]
    return {
        "width": drawn.width,
        "height": drawn.height,
        "box": drawn.box,
        "boxes": [*_boxes(definition, people, drawn, of_run or {})],
        "ways": ways,
        "cut": [*dict.fromkeys(_whole(definition, way) for way in ways if way["is_cut"])],
    }


def _way(way: Way, room: float, of_run: Mapping[str, BoxOfRun]) -> dict[str, Any]:
    said = _said(way)
    shown, look = fitted(said, room), _look(way, of_run)
    return {**way._asdict(), "said": said, "shown": shown, "is_cut": shown != said, "look": look}


def _whole(definition: Definition, way: Mapping[str, Any]) -> SafeString:
    """`Publish: if public (List photos) = true`: the words of a way that the drawing cuts short."""
    step = definition.steps[way["target"]]
    words = way["said"]
    if way["word"] == IF:
        titles = {name: each.title for name, each in definition.steps.items()}
        words = gettext("if %s") % condition_of(step, titles=titles)
    parts = {"step": step.title, "words": words}
    shown = {name: format_html("<bdi>{}</bdi>", part) for name, part in parts.items()}
    return format_html(gettext("{step}: {words}"), **shown)


def _boxes(
    definition: Definition,
    people: People,
    drawn: Picture,
    of_run: Mapping[str, BoxOfRun],
) -> Any:
    for number, said in enumerate(definition.said["steps"], 1):
        step = definition.steps[said["name"]]
        place = drawn.places[step.name]
        yield {
            "number": number,
            "title": step.title,
            "icon": ICONS[step.kind],
            "what": line_of(step, people),
            "x": place.x,
            "y": place.y,
            **of_run.get(step.name, BoxOfRun())._asdict(),
        }


def _said(way: Way) -> str:
    if way.word == IF:
        return gettext("if %s") % way.condition
    return str(WORDS.get(way.word, ""))


def fitted(text: str, width: float) -> str:
    """The text in the letters of the words of ways, cut to so many pixels: between two boxes there
    is no more room."""
    if sum(map(_width, text)) <= width:
        return text
    left, count = width - _width("…"), 0
    for letter in text:
        left -= _width(letter)
        if left < 0:
            break
        count += 1
    return f"{text[:count].rstrip(' .')}…"


def _width(letter: str) -> float:
    """About as much as flows.css gives to it, of 11 pixels."""
    if unicodedata.east_asian_width(letter) in "WF":
        return 11
    return (
        3.2 if letter in "fijlrt.,:'|! " else 8.6 if letter in "mwMW@%…" or letter.isupper() else 6
    )


def _look(way: Way, of_run: Mapping[str, BoxOfRun]) -> str:
    """Whether the way has been taken, in a run."""
    target = of_run.get(way.target)
    if target is None:
        return ""
    return "plain" if target.state in ("", "blocked", "skipped") else "taken"
