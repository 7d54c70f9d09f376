"""The home page as a test reads it."""

from __future__ import annotations

import re
from datetime import datetime
from html import unescape
from typing import Any, NamedTuple

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


class Shown(NamedTuple):
    """A figure of the page."""

    value: str
    note: str
    url: str
    tone: str


def figures(html: str) -> dict[str, Shown]:
    """All figures by their keys."""
    found = re.findall(
        r'class="home-figure(?: home-figure-(\w+))?" id="home-(\w+)" href="([^"]*)">'
        r'.*?<strong>(.*?)</strong><span class="home-note">(.*?)</span>',
        html,
    )
    return {
        key: Shown(unescape(value), unescape(note), unescape(url), tone)
        for tone, key, url, value, note in found
    }


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
