"""Rows of which a version never changes, and the table of versions, each with what it changed:
templates/admin/includes/versions.html."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.actions import ReasonAction
from apps.common.admin.display import shown_actor, shown_time, state_label, translate
from apps.common.admin.service import ServiceModelAdmin
from apps.journal.admin.recorded import RecordedAdmin
from apps.journal.models import NamedVersion
from apps.journal.services.versions import set_status

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


class NamedVersionAdmin(RecordedAdmin, ServiceModelAdmin):
    """Only the newest version can be edited, and saving it makes the next one. Its form has places
    of its own for the fields."""

    actions: Any = ("retire", "activate")

    shown_status = state_label(
        "status",
        {NamedVersion.Status.ACTIVE: "success", NamedVersion.Status.RETIRED: "warning"},
        _("status"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: Any = super().get_queryset(request)
        marked: QuerySet[Any] = rows.marked()
        return marked

    def has_retire_permission(self, request: HttpRequest) -> bool:
        return super().has_change_permission(request)

    def current(self, obj: Any) -> Any:
        return self.model._default_manager.latest_of(obj.name)

    def changed_by(self, row: Any) -> str:
        return row.created_by or super().changed_by(row)


def status_actions(when_retired: Promise | str, when_active: Promise | str) -> tuple[Any, Any]:
    """The actions `retire` and `activate`, with what they mean for what has a version."""
    retired, active = NamedVersion.Status.RETIRED, NamedVersion.Status.ACTIVE

    @ReasonAction(
        description=_("Retire"),
        permission="retire",
        question=when_retired,
        icon="archive",
        offered=lambda row: row.status == active,
    )
    def retire(self: Any, row: Any, *, reason: str, actor: str) -> bool:
        return set_status(row, retired, actor=actor, reason=reason)

    @ReasonAction(
        description=_("Make active again"),
        permission="retire",
        question=when_active,
        icon="unarchive",
        offered=lambda row: row.status == retired,
    )
    def activate(self: Any, row: Any, *, reason: str, actor: str) -> bool:
        return set_status(row, active, actor=actor, reason=reason)

    return retire, activate
