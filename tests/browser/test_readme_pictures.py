"""The two pictures of the README; `README_SCREENSHOTS=1` takes them anew."""

from __future__ import annotations

import os
import struct
import zlib
from base64 import b64decode, b64encode
from collections import Counter
from pathlib import Path

import pytest
from django.urls import reverse
from playwright.sync_api import Page, ViewportSize

from tests.scenes import play_morning

TAKES_ANEW = bool(os.environ.get("README_SCREENSHOTS"))
# The database has to be there before the fixtures that are asked for by name.
pytestmark = [pytest.mark.django_db(transaction=True)] if TAKES_ANEW else []

PICTURES = Path(__file__).with_name("pictures")
MOST_BYTES = 150_000
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


@pytest.mark.parametrize(("name", "most"), [("tasks", 860), ("dispatch", 2000)])
def test_picture_of_the_readme_is_there_and_small(
    request: pytest.FixtureRequest, name: str, most: int
) -> None:
    """`most` is the height in pixels at which the picture ends, if the page has not."""
    picture = PICTURES / f"{name}.png"
    if TAKES_ANEW:
        page: Page = request.getfixturevalue("browser_page")
        morning = play_morning(request.getfixturevalue("frozen_clock"))
        addresses = {
            "tasks": reverse("admin:dispatch_oncetask_changelist"),
            "dispatch": reverse("admin:dispatch_dispatch_change", args=[morning.cancelled.pk]),
        }
        picture.write_bytes(squeezed(page, shot_of(page, addresses[name], most)))
    content = picture.read_bytes()

    assert struct.unpack(">I", content[16:20]) == (WIDTH,)
    assert len(content) < MOST_BYTES


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
