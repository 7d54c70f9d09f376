"""The common parts of the pages of alerts."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest
from django.utils.safestring import SafeString

from apps.alerts.services import settings
from apps.common.admin.display import shown_text, translate
from apps.common.admin.html import link
from apps.common.admin.service import ServiceModelAdmin
from apps.journal.admin import RecordedAdmin
from apps.reports.watches.subjects import url_of


class SettingAdmin(RecordedAdmin, ServiceModelAdmin):
    """The admin of rules and of channels."""

    is_removable = True

    def create(self, request: HttpRequest, form: Any, *, actor: str) -> Any:
        return self._warned(request, settings.create(self.model, actor=actor, **form.values))

    def update(self, request: HttpRequest, row: Any, form: Any, *, version: int, actor: str) -> Any:
        changed = settings.update(row, form.changes, version=version, actor=actor)
        return self._warned(request, changed)

    def remove(self, request: HttpRequest, row: Any, *, actor: str) -> None:
        settings.delete(row, actor=actor)

    def _warned(self, request: HttpRequest, row: Any) -> Any:
        """The row, after a warning if it notifies nobody."""
        if why := self.trouble(row):
            self.message_user(request, shown_text(translate(why)), messages.WARNING)
        return row

    def trouble(self, row: Any) -> str | None:
        """Why the row can notify nobody; None if it can."""
        raise NotImplementedError(f"{type(self).__name__} must define trouble()")


def subject_link(subject: str, shown: str) -> SafeString:
    """The name of a subject as a link to the page of it."""
    return link(url_of(subject), shown_text(shown))
