"""Versions of a row, each with what it changed: templates/admin/includes/versions.html."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.utils.translation import gettext

from apps.common.admin.display import shown_actor, shown_time, translate

MAX_VERSIONS = 20


def newest_versions(rows: Any, name: str) -> list[Any]:
    """The newest versions of that name, and the one before them."""
    return [*rows.filter(name=name).order_by("-version")[: MAX_VERSIONS + 1]]


def shown_versions(
    found: Sequence[Any],
    row: Any,
    *,
    url: Callable[[Any], str],
    changes: Callable[[Any, Any], Sequence[str]],
    used_by: Callable[[Any], str] | None = None,
) -> list[dict[str, Any]]:
    """The lines of the table of versions, of which `row` is the one that is shown; `changes` says
    what one has against the one before it."""
    return [
        {
            "url": url(each),
            "version": each.version,
            "is_this": each.pk == row.pk,
            "state": each.get_status_display(),
            "used_by": used_by(each) if used_by is not None else "",
            "made": shown_time(each.created_at),
            "by": shown_actor(each.created_by) if each.created_by else gettext("the platform"),
            "changes": [translate(line) for line in changes(before, each)] if before else [],
        }
        for each, before in zip(found, [*found[1:], None], strict=True)
    ][:MAX_VERSIONS]
