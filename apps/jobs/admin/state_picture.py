"""The states of a job as a drawing, with every arrow of the arrow table between them."""

from __future__ import annotations

from collections.abc import Collection

from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from apps.common.admin.display import listed, parted
from apps.jobs.admin.labels import ARROW_WORDS
from apps.jobs.models import Job
from apps.jobs.rules import transitions as t

Pair = tuple[str, str]

WIDTH, HEIGHT = 720, 292
# The upper left corners of the boxes: what waits at the left, what is over at the right.
BOXES = {
    t.SCHEDULED: (32, 60),
    t.BLOCKED: (32, 130),
    t.READY: (32, 200),
    t.RUNNING: (287, 130),
    t.SUCCEEDED: (562, 30),
    t.FAILED: (562, 130),
    t.CANCELLED: (562, 230),
}
# The way of each arrow, from the edge of one box around the others to the edge of the next.
CURVES: dict[Pair, str] = {
    (t.SCHEDULED, t.BLOCKED): "M81 103L81 127",
    (t.SCHEDULED, t.READY): "M44 103Q-4 150 44 197",
    (t.SCHEDULED, t.SUCCEEDED): "M151 58Q340 -8 559 37",
    (t.SCHEDULED, t.FAILED): "M151 74Q380 52 564 127",
    (t.SCHEDULED, t.CANCELLED): "M118 103Q300 250 559 250",
    (t.BLOCKED, t.SCHEDULED): "M104 127L104 103",
    (t.BLOCKED, t.READY): "M81 173L81 197",
    (t.BLOCKED, t.SUCCEEDED): "M151 140Q340 20 559 48",
    (t.BLOCKED, t.FAILED): "M151 146Q380 84 559 138",
    (t.BLOCKED, t.CANCELLED): "M151 162Q340 268 559 246",
    (t.READY, t.SCHEDULED): "M136 197Q186 150 136 103",
    (t.READY, t.BLOCKED): "M104 197L104 173",
    (t.READY, t.RUNNING): "M151 215Q224 210 299 173",
    (t.READY, t.SUCCEEDED): "M120 197Q300 60 559 52",
    (t.READY, t.FAILED): "M151 224Q380 240 559 173",
    (t.READY, t.CANCELLED): "M151 233Q340 272 559 255",
    (t.RUNNING, t.SCHEDULED): "M299 127Q224 90 151 85",
    (t.RUNNING, t.BLOCKED): "M284 147Q218 152 151 150",
    (t.RUNNING, t.READY): "M284 155Q211 160 136 197",
    (t.RUNNING, t.SUCCEEDED): "M406 139Q491 124 580 73",
    (t.RUNNING, t.FAILED): "M406 161Q482 176 559 161",
    (t.RUNNING, t.CANCELLED): "M385 173Q474 224 559 239",
    (t.SUCCEEDED, t.BLOCKED): "M600 73Q440 300 151 166",
    (t.FAILED, t.BLOCKED): "M576 173Q380 262 151 158",
    (t.CANCELLED, t.BLOCKED): "M559 234Q340 252 151 154",
    (t.SUCCEEDED, t.READY): "M609 73Q480 350 151 240",
    (t.FAILED, t.READY): "M592 173Q400 330 151 242",
    (t.FAILED, t.SUCCEEDED): "M632 127Q646 100 632 73",
    (t.CANCELLED, t.READY): "M559 267Q360 322 151 243",
    (t.CANCELLED, t.SCHEDULED): "M559 238Q300 226 136 103",
}
# The looks of arrows; later ones are drawn above the others.
PLAIN, POSSIBLE, TAKEN = "plain", "open", "taken"


def pairs() -> dict[Pair, list[t.Arrow]]:
    """The arrows of the table by the states they join."""
    found: dict[Pair, list[t.Arrow]] = {}
    # An undo leads back to wherever an act came from.
    for arrow in (each for each in t.ARROWS.values() if each.name != "undo"):
        for source in arrow.sources:
            for target in arrow.targets:
                if source != target:
                    found.setdefault((source, target), []).append(arrow)
    return found


def state_picture(status: str, taken: Collection[Pair]) -> SafeString:
    """The picture with the present state marked, and the arrows that the job has taken."""
    words = dict(Job.Status.choices)
    looks = (PLAIN, POSSIBLE, TAKEN)
    curves = []
    for pair, arrows in pairs().items():
        look = TAKEN if pair in taken else POSSIBLE if pair[0] == status else PLAIN
        named = listed(ARROW_WORDS[arrow.name] for arrow in arrows)
        curves.append((look, CURVES[pair], f"{words[pair[0]]} → {words[pair[1]]}: {named}"))
    passed = {state for pair in taken for state in pair}
    boxes = []
    for name, (x, y) in BOXES.items():
        look = "here" if name == status else "seen" if name in passed else ""
        boxes.append((look, x, y, capfirst(words[name])))
    context = {
        "width": WIDTH,
        "height": HEIGHT,
        "looks": looks,
        "curves": sorted(curves, key=lambda curve: looks.index(curve[0])),
        "boxes": boxes,
        "label": _("States of a job; now: %s") % words.get(status, status),
        "ways": ways_from(status),
    }
    return render_to_string("admin/includes/state_picture.html", context)


def ways_from(status: str) -> list[tuple[str, str]]:
    """The parties that can act on a job in this state, each with its actions and their targets."""
    words = dict(Job.Status.choices)
    who = {t.WORKER: _("Worker"), t.SYSTEM: _("Platform"), t.OPERATOR: _("Operator")}
    lines = []
    for by, name in who.items():
        arrows = [a for a in t.ARROWS.values() if a.by == by and a.name != "undo"]
        arrows = [a for a in arrows if status in a.sources]
        ways = [
            f"{ARROW_WORDS[arrow.name]} → {' / '.join(str(words[each]) for each in arrow.targets)}"
            for arrow in arrows
        ]
        if ways:
            lines.append((name, parted(ways)))
    return lines
