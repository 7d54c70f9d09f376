"""Places of the steps of a flow in a drawing, and the ways between them: levels from left to
right, in pixels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from apps.flows.rules import shapes
from apps.flows.rules.definition import Definition, Step
from apps.flows.rules.references import FROM
from apps.flows.rules.texts import value_text

# flows.css has the height of a box, too.
HEIGHT = 114
# The width of a box, and between two levels, where the words of ways are: so that four levels fill
# a usual page; and where there are more, so that five do.
_WIDE, _TIGHT = (178, 60), (140, 52)
_FEW = 4
# Between two boxes of a level.
BELOW = 22
MARGIN = 4
# Room of a way that passes a level.
_PASSING = 10
_SWEEPS = 4
MAX_CONDITION, MAX_WHOLE_CONDITION = 40, 200
# The words of ways: for each of its items; when all of it is there; by a condition; after a
# failure; however it ends.
EACH, ALL, IF, FAILURE, ALWAYS = "each", "all", "if", "failure", "always"


class Place(NamedTuple):
    """The upper left corner of the box of a step, and its level, which counts from 0."""

    x: float
    y: float
    level: int


class Way(NamedTuple):
    """From a step to one that needs it: the path of an SVG, its word, and the middle of that.
    `condition` is what the word `if` asks for."""

    source: str
    target: str
    path: str
    word: str
    condition: str
    x: float
    y: float


class Picture(NamedTuple):
    """`box` is the width of the boxes, `aside` that between two levels."""

    width: float
    height: float
    places: dict[str, Place]
    ways: list[Way]
    box: int
    aside: int


class _Sizes(NamedTuple):
    box: int
    aside: int

    def left(self, level: int) -> float:
        return MARGIN + level * (self.box + self.aside)


class _Item(NamedTuple):
    """An occupant of a level: a step, or a way that passes the level to its target."""

    name: str
    target: str = ""

    @property
    def height(self) -> int:
        return _PASSING if self.target else HEIGHT


_Ties = dict[_Item, list[_Item]]


def picture(definition: Definition) -> Picture:
    """The drawing of a definition. A need that follows from others, and has no word, has no way of
    its own."""
    ways = _ways(definition)
    columns, chains = _columns(definition, ways)
    before: _Ties = {}
    after: _Ties = {}
    for chain in chains:
        for one, next_one in pairwise(chain):
            after.setdefault(one, []).append(next_one)
            before.setdefault(next_one, []).append(one)
    columns = _with_few_crossings(columns, before, after)
    sizes = _Sizes(*(_WIDE if len(columns) <= _FEW else _TIGHT))
    middles = _middles(columns, before)
    level_of = {item: level for level, column in enumerate(columns) for item in column}
    places = {
        item.name: Place(sizes.left(level), middles[item] - HEIGHT / 2, level)
        for item, level in level_of.items()
        if not item.target
    }
    bottom = max((middles[item] + item.height / 2 for item in level_of), default=0.0)
    drawn = [
        _drawn(definition.steps[source], definition.steps[target], chain, level_of, middles, sizes)
        for (source, target), chain in zip(ways, chains, strict=True)
    ]
    width = sizes.left(len(columns) - 1) + sizes.box + MARGIN
    return Picture(width, bottom + MARGIN, places, drawn, *sizes)


def word_of(step: Step, need: Step) -> str:
    """The word of the way to a step from one that it needs; "" for none."""
    if step.said.get("if", {}).get("step") == need.name:
        return IF
    if step.when != shapes.SUCCESS:
        return FAILURE if step.when == shapes.FAILURE else ALWAYS
    each = step.said.get("each")
    if isinstance(each, dict) and each.get(FROM) == need.name:
        return EACH
    is_many = need.kind == shapes.JOBS or need.quota != 1
    return ALL if is_many and "at_least" not in need.said else ""


def condition_of(step: Step, limit: int = MAX_CONDITION) -> str:
    """The condition of a step, cut to the limit: `public = true`."""
    asked = step.said["if"]
    text = f"{asked.get('path') or asked['step']} = {value_text(asked['equals'])}"
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


# --- what is drawn --------------------------------------------------------------------------------
def _ways(definition: Definition) -> list[tuple[str, str]]:
    steps = definition.steps
    # All that a step follows, also by others.
    follows: dict[str, set[str]] = {}
    for name, step in steps.items():
        follows[name] = {*step.needs}.union(*(follows[need] for need in step.needs))
    found = []
    for name, step in steps.items():
        for need in step.needs:
            is_implied = any(need in follows[other] for other in step.needs)
            if not is_implied or word_of(step, steps[need]) in (IF, EACH):
                found.append((need, name))
    return found


def _columns(
    definition: Definition, ways: Iterable[tuple[str, str]]
) -> tuple[list[list[_Item]], list[list[_Item]]]:
    """The items of each level, and for each way those that it leads over."""
    columns = [[_Item(name) for name in names] for names in definition.levels]
    level = {item.name: number for number, column in enumerate(columns) for item in column}
    chains = []
    for source, target in ways:
        between = range(level[source] + 1, level[target])
        passed = {number: _Item(f"{source} in {number}", target) for number in between}
        for number, item in passed.items():
            columns[number].append(item)
        chains.append([_Item(source), *passed.values(), _Item(target)])
    return columns, chains


def _with_few_crossings(
    columns: Sequence[list[_Item]], before: _Ties, after: _Ties
) -> list[list[_Item]]:
    """The levels, each in the order of the middles of what it is tied to, to and fro."""
    found = [*columns]
    place = {item: float(n) for column in found for n, item in enumerate(column)}
    for sweep in range(_SWEEPS):
        ties = after if sweep % 2 else before
        numbers = range(len(found))
        for number in reversed(numbers) if sweep % 2 else numbers:
            wanted = {
                item: sum(place[each] for each in tied) / len(tied)
                if (tied := ties.get(item))
                else place[item]
                for item in found[number]
            }
            found[number] = sorted(found[number], key=wanted.__getitem__)
            place.update((item, float(n)) for n, item in enumerate(found[number]))
    return found


def _middles(columns: Sequence[Sequence[_Item]], before: _Ties) -> dict[_Item, float]:
    """The distance of the middle of each item from the top: as near as there is room to those that
    it follows."""
    middles: dict[_Item, float] = {}
    for column in columns:
        rooms = _rooms(column)
        wanted = [
            sum(middles[each] for each in tied) / len(tied) - room
            if (tied := before.get(item))
            else 0.0
            for item, room in zip(column, rooms, strict=True)
        ]
        for item, room, at in zip(column, rooms, _ascending(wanted), strict=True):
            middles[item] = room + at
    top = min((middle - item.height / 2 for item, middle in middles.items()), default=0.0)
    return {item: middle - top + MARGIN for item, middle in middles.items()}


def _rooms(column: Sequence[_Item]) -> list[float]:
    """The least distances of the middles from the top, when nothing is above the first."""
    found, edge = [], 0.0
    for item in column:
        found.append(edge + item.height / 2)
        edge += item.height + BELOW
    return found


def _ascending(wanted: Sequence[float]) -> list[float]:
    """The ascending numbers nearest to the wanted ones: those that fall have their mean."""
    blocks: list[tuple[float, int]] = []
    for each in wanted:
        total, count = each, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / count:
            more, counted = blocks.pop()
            total, count = total + more, count + counted
        blocks.append((total, count))
    return [total / count for total, count in blocks for _each in range(count)]


def _drawn(
    source: Step,
    target: Step,
    chain: Sequence[_Item],
    level_of: dict[_Item, int],
    middles: dict[_Item, float],
    sizes: _Sizes,
) -> Way:
    """The curve through its items, level within each of them."""
    parts: list[str] = []
    for one, next_one in pairwise(chain):
        x, y = sizes.left(level_of[one]) + sizes.box, middles[one]
        to, down = sizes.left(level_of[next_one]), middles[next_one]
        half = (x + to) / 2
        if not parts:
            parts.append(f"M{x:g} {y:.1f}")
        parts.append(f"C{half:g} {y:.1f} {half:g} {down:.1f} {to:g} {down:.1f}")
        if next_one.target:
            parts.append(f"H{to + sizes.box:g}")
    word = word_of(target, source)
    condition = condition_of(target, MAX_WHOLE_CONDITION) if word == IF else ""
    return Way(source.name, target.name, "".join(parts), word, condition, half, (y + down) / 2)
