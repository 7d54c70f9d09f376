"""What the pages of alerts have in common."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString

from apps.alerts.rules import kinds
from apps.alerts.services import settings
from apps.common.admin import ServiceModelAdmin
from apps.common.admin.display import shown_text, translate
from apps.common.admin.html import link, list_url, page_url
from apps.journal.admin import RecordedAdmin


class SettingAdmin(RecordedAdmin, ServiceModelAdmin):
    """Of rules and channels."""

    is_removable = True

    def create(self, request: HttpRequest, form: Any, *, actor: str) -> Any:
        return self._warned(request, settings.create(self.model, actor=actor, **form.values))

    def update(self, request: HttpRequest, row: Any, form: Any, *, version: int, actor: str) -> Any:
        changed = settings.update(row, form.changes, version=version, actor=actor)
        return self._warned(request, changed)

    def remove(self, request: HttpRequest, row: Any, *, actor: str) -> None:
        settings.delete(row, actor=actor)

    def _warned(self, request: HttpRequest, row: Any) -> Any:
        """The row, after a warning if it cannot do what it is for."""
        if why := self.trouble(row):
            self.message_user(request, shown_text(translate(why)), messages.WARNING)
        return row

    def trouble(self, row: Any) -> str:
        """Why it cannot do what it is for, if so."""
        raise NotImplementedError(f"{type(self).__name__} must define trouble()")


def subject_link(subject: str, shown: str) -> SafeString:
    """What people call a subject, as a link to what there is to see of it."""
    kind, _colon, name = subject.partition(":")
    return link(_url(kind, name), shown_text(shown))


def _url(kind: str, name: str) -> str:
    if kind == kinds.ONCE_TASK:
        return page_url("dispatch_oncetask", name)
    if kind in (kinds.SCHEDULE, kinds.SCHEDULE_RUN):
        return page_url("schedules_schedule", name)
    if kind == kinds.WORKER:
        return list_url("jobs_worker", q=name)
    if kind == kinds.JOB_TYPE:
        return list_url("jobs_jobtype", q=name)
    return f"{reverse('admin:index')}#overview-each-sweep"
