"""The home page as a test reads it."""

from __future__ import annotations

import re
from datetime import datetime
from html import unescape
from typing import Any

from django.test import Client

from apps.journal.models import JournalEntry
from apps.reports.services.coverage import Stored

HOME = "/admin/"
FINAL = ("succeeded", "failed", "cancelled")


def home(client: Client, **query: Any) -> str:
    """The page itself."""
    page = client.get(HOME, query)
    assert page.status_code == 200
    return page.content.decode()


def tile(html: str, key: str) -> str:
    """The figure of a tile."""
    (found,) = re.findall(
        rf'id="overview-tile-{key}".*?<strong>(.*?)</strong>', html, flags=re.DOTALL
    )
    return str(found)


def tiles(html: str) -> dict[str, str]:
    """All figures by the keys of their tiles."""
    keys = re.findall(r'id="overview-tile-([^"]+)"', html)
    return {key: tile(html, key) for key in keys}


def links(html: str, *keys: str) -> set[str]:
    """Where the tiles with these keys lead."""
    found = [re.findall(rf'id="overview-tile-{key}" href="([^"]*)"', html) for key in keys]
    return {unescape(url) for (url,) in found}


def notices(html: str) -> dict[str, str]:
    """The words of the rows of the strip, those of a watch together, by its key."""
    rows = re.findall(r'<li class="trouble [^>]*data-kind="(\w+)"(.*?)</li>', html, flags=re.DOTALL)
    found: dict[str, str] = {}
    for key, text in rows:
        words = re.sub(r"\s+", " ", unescape(re.sub("<[^>]+>", " ", f"<{text}")))
        found[key] = found.get(key, "") + words
    return found


def ended(source: str, since: Any, until: Any) -> list[JournalEntry]:
    """The entries of what came to its end in [since, until)."""
    entries = JournalEntry.objects.filter(source=source, at__gte=since, at__lt=until)
    return [each for each in entries if each.to_state in (*FINAL, "expired", "released")]


def closed_until() -> datetime:
    """Up to when all is added up."""
    until = Stored.read().closed_until
    assert until is not None
    return until
