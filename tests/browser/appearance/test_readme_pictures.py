"""The pictures of the README; `README_SCREENSHOTS=1` takes them anew."""

from __future__ import annotations

import math
import os
import random
import struct
import zlib
from base64 import b64decode, b64encode
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, ViewportSize

from apps.common.models import SweepLease
from apps.journal.services import error_key
from apps.reports.services import rollup
from taskplatform import beat
from tests.frozen import FrozenClock
from tests.integration.reports.history import entry, write
from tests.job_scenes import fill_yard
from tests.scenes import play_morning

TAKES_ANEW = bool(os.environ.get("README_SCREENSHOTS"))
# The database has to be there before the fixtures that are asked for by name.
pytestmark = [pytest.mark.django_db(transaction=True)] if TAKES_ANEW else []

PICTURES = Path(__file__).parents[1] / "pictures"
MAX_BYTES = 150_000
WIDTH = 1280
COMMON = 160
# The pixels of a picture, four bytes each.
READ_PIXELS = """
async png => {
  const image = new Image();
  image.src = `data:image/png;base64,${png}`;
  await image.decode();
  const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, image.width, image.height).data;
  let text = "";
  for (let at = 0; at < pixels.length; at += 30000) {
    text += String.fromCharCode(...pixels.subarray(at, at + 30000));
  }
  return btoa(text);
}
"""


# The address and the height in pixels at which the picture ends, if the page has not.
SIGHTS = {
    "overview": ("/admin/", 1400),
    "tasks": ("/admin/dispatch/oncetask/", 860),
    "dispatch": ("/admin/dispatch/dispatch/{cancelled}/change/", 2000),
    "report": ("/admin/reports/", 1190),
    "failures": ("/admin/failures/", 700),
}
# Type of jobs: a minute's share of work, the usual time in ms, and one in how many that fails.
WORK = {"mail": (5, 240, 60), "thumbnail": (9, 900, 300), "invoice": (2, 3_000, 25)}
FAILURES = {
    "mail": "ConnectionRefusedError: mail server smtp.example.org refused the connection",
    "thumbnail": "ValueError: the picture has no pixels",
    "invoice": "TimeoutError: the tax service did not answer within 10 s",
}
GOOD_END = ("succeeded", "running", "succeeded")
BAD_ENDS = [("failed", "running", "scheduled")] * 3 + [("failed", "running", "failed")]


@pytest.mark.parametrize("name", SIGHTS)
def test_picture_of_the_readme_is_there_and_small(
    request: pytest.FixtureRequest, name: str
) -> None:
    picture = PICTURES / f"{name}.png"
    if TAKES_ANEW:
        page: Page = request.getfixturevalue("browser_page")
        clock: FrozenClock = request.getfixturevalue("frozen_clock")
        morning = play_morning(clock)
        work_a_day(clock())
        clock.advance(minutes=1)
        rollup.roll_up(until=clock() + rollup.MAX_TIME)
        fill_yard(clock)
        keep_running(request.getfixturevalue("monkeypatch"), clock())
        address, most = SIGHTS[name]
        address = address.format(cancelled=morning.cancelled.pk)
        picture.write_bytes(squeezed(page, shot_of(page, address, most)))
    content = picture.read_bytes()

    assert struct.unpack(">I", content[16:20]) == (WIDTH,)
    assert len(content) < MAX_BYTES


def keep_running(patch: pytest.MonkeyPatch, now: datetime) -> None:
    """Have the sweeps come round in time, on a machine whose clock is the one of the picture."""
    for name in beat.periods():
        SweepLease.objects.update_or_create(
            name=name, defaults={"started_at": now, "finished_at": now, "duration_ms": 4}
        )
    patch.setattr("apps.common.clock.drift", lambda: timedelta(milliseconds=3))


def failure(error: str) -> dict[str, str]:
    return {"error": error, "error_key": error_key(error)}


def work_a_day(until: datetime) -> None:
    """A day of jobs on two hosts, most of it in the afternoon."""
    chance = random.Random(1)
    made = []
    for minute in range(24 * 60):
        at = until - timedelta(minutes=24 * 60 - minute)
        busy = 1 + math.sin((at.hour * 60 + at.minute - 540) / 1440 * 2 * math.pi)
        for name, (share, usual, one_in) in WORK.items():
            for _ in range(round(share * busy * chance.random())):
                ended = at + timedelta(seconds=chance.uniform(0, 59))
                failed = not chance.randrange(one_in)
                made.append(
                    entry(
                        min(ended, until),
                        type_or_task=name,
                        host=f"app{chance.randint(1, 2)}",
                        worker="drain",
                        wait_ms=int(chance.lognormvariate(3.5, 1.0)),
                        run_ms=int(usual * chance.lognormvariate(0, 0.5)),
                        kind=chance.choice(BAD_ENDS) if failed else GOOD_END,
                        **(failure(FAILURES[name]) if failed else {}),
                    )
                )
    write(*made)


def shot_of(page: Page, address: str, most: int) -> bytes:
    """The page in a window as high as the page, so that what sticks to its end stays there."""
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    page.set_viewport_size(ViewportSize(width=WIDTH, height=800))
    page.goto(address)
    assert page.url.endswith(address)
    page.wait_for_load_state("networkidle")
    height = min(most, page.evaluate("document.documentElement.scrollHeight"))
    page.set_viewport_size(ViewportSize(width=WIDTH, height=height))
    return page.screenshot(animations="disabled")


def squeezed(page: Page, png: bytes) -> bytes:
    """The picture in 256 colours: the commonest, and of the others those that are most unlike."""
    pixels = b64decode(page.evaluate(READ_PIXELS, b64encode(png).decode()))
    colours = [pixels[at : at + 3] for at in range(0, len(pixels), 4)]
    ranked = [colour for colour, _ in Counter(colours).most_common()]
    palette: list[bytes] = []
    # Of each colour: how far the nearest of the palette is, and its place there.
    nearest = dict.fromkeys(ranked, (distance(b"\0\0\0", b"\xff\xff\xff") + 1, 0))
    while len(palette) < min(256, len(ranked)):
        rare = max(nearest.items(), key=lambda item: item[1][0])[0]
        palette.append(ranked[len(palette)] if len(palette) < COMMON else rare)
        for colour, (gap, _place) in nearest.items():
            if (closer := distance(palette[-1], colour)) < gap:
                nearest[colour] = (closer, len(palette) - 1)
    rows = bytearray()
    for start in range(0, len(colours), WIDTH):
        rows.append(0)
        rows += bytes(nearest[colour][1] for colour in colours[start : start + WIDTH])
    head = struct.pack(">IIBBBBB", WIDTH, len(colours) // WIDTH, 8, 3, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in (
            (b"IHDR", head),
            (b"PLTE", b"".join(palette)),
            (b"IDAT", zlib.compress(rows, 9)),
            (b"IEND", b""),
        )
    )


def distance(one: bytes, other: bytes) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
