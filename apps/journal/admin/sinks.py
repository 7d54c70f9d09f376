"""The sinks in the admin: how far each has got, what it refused, and the switch to pause it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext_lazy, pgettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.actions import ReasonAction
from apps.common.admin.display import (
    column,
    duration_of,
    error_column,
    label,
    pretty_json,
    shown_text,
    time_column,
)
from apps.common.admin.filters import list_filters
from apps.common.admin.html import link, list_url, noted, page_link
from apps.common.admin.machine_rows import MachineRowAdmin
from apps.common.admin.timeline import Moment
from apps.common.filtersets import Key, RowFilters
from apps.common.readers import read_key, read_number
from apps.journal.admin import words
from apps.journal.admin.entries import latest_moments
from apps.journal.models import JournalEntry, Sink, SinkReject, Source
from apps.journal.services import carry

_MS = timedelta(milliseconds=1)


class SinkAdmin(MachineRowAdmin):
    when_empty = _("JOURNAL_SINKS names where the journal is sent; see the README of the platform.")
    list_display = ("name", "shown_state", "shown_lag", "shown_sent", "shown_error")
    list_mobile = (("shown_state", "name"), ("shown_lag", "shown_sent", "shown_error"))
    fieldsets = (
        (None, {"fields": ("name", "shown_address", "shown_state", "shown_lag", "shown_reason")}),
        (
            _("Deliveries"),
            {
                "fields": (
                    "shown_sent",
                    "shown_delivered_at",
                    "failures",
                    "shown_retry_at",
                    "last_error",
                    "shown_rejected",
                )
            },
        ),
    )
    actions = ("pause", "resume")

    shown_delivered_at = time_column("delivered_at", _("last delivery"))
    shown_retry_at = time_column("retry_at", _("next try"))
    shown_reason = error_column("pause_reason", _("reason"))
    shown_error = error_column("error", _("last error"), limit=120)
    last_error = error_column("error", _("last error"))

    def timeline(self, request: HttpRequest, row: Sink) -> Sequence[Moment]:
        return latest_moments(Source.SINK, row.pk, user=request.user, shows_payload=True)

    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        now, known = clock.now(), carry.sinks()
        for row in rows:
            row.address, row.now = known.get(row.name), now
            row.lag = carry.lag(row, now)

    def prepare_row(self, request: HttpRequest, row: Any) -> None:
        self.prepare_page(request, [row])

    @column(_("state"))
    def shown_state(self, sink: Any) -> SafeString:
        return label(*_state(sink))

    @column(_("address"))
    def shown_address(self, sink: Any) -> str:
        return shown_text(sink.address.shown) if sink.address else "–"

    @column(_("behind"))
    def shown_lag(self, sink: Any) -> str:
        return duration_of(sink.lag // _MS) if sink.address else "–"

    @column(_("sent"))
    def shown_sent(self, sink: Any) -> SafeString:
        refused = ""
        if sink.rejected:
            refused = gettext("%s refused") % f"{sink.rejected:,}"
        return noted(f"{sink.sent:,}", refused)

    @column(_("refused"))
    def shown_rejected(self, sink: Any) -> SafeString:
        return link(list_url(SinkReject, sink=sink.name), f"{sink.rejected:,}")

    def has_steer_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return self._has_own_permission(request, "change_sink")

    @ReasonAction(
        description=_("Pause"),
        permission="steer",
        question=_("Nothing more is sent until somebody resumes it; then it goes on from there."),
        done=ngettext_lazy("%d sink paused.", "%d sinks paused."),
        icon="pause_circle",
        offered=lambda sink: not sink.is_paused,
    )
    def pause(self, row: Sink, *, reason: str, actor: str) -> object:
        return not row.is_paused and carry.pause(sink=row, actor=actor, reason=reason) is None

    @ReasonAction(
        description=_("Resume"),
        permission="steer",
        question=_("It goes on where it stopped, within seconds."),
        done=ngettext_lazy("%d sink resumed.", "%d sinks resumed."),
        icon="play_circle",
        offered=lambda sink: sink.is_paused or sink.failures > 0,
        is_harmless=True,
    )
    def resume(self, row: Sink, *, reason: str, actor: str) -> object:
        may = row.is_paused or row.failures > 0
        return may and carry.resume(sink=row, actor=actor, reason=reason) is None


def _state(sink: Any) -> tuple[str, str]:
    """The state of the sink in words, and its colour."""
    if sink.address is None:
        return gettext("Not in JOURNAL_SINKS"), ""
    if sink.is_paused:
        return gettext("Paused"), "warning"
    if sink.failures:
        return gettext("Failing"), "danger"
    if sink.lag > carry.LATE:
        return pgettext("sink", "Late"), "warning"
    return pgettext("sink", "Active"), "success"


class RejectFilters(RowFilters):
    sink = Key(label=_("sink"))


class SinkRejectAdmin(MachineRowAdmin):
    when_empty = _("No sink has refused an entry in the last 30 days.")
    list_display = ("entry_id", "sink", "shown_at", "shown_error")
    list_filter = list_filters(RejectFilters)
    search_help_text = _("Number of the entry, or sink, in full")
    exact_search = (("entry_id", read_number), ("sink", read_key))
    fieldsets = (
        (None, {"fields": ("sink", "shown_entry", "shown_at", "whole_error", "shown_body")}),
    )
    payload_fields = ("shown_body",)

    shown_at = time_column("at", _("at"))
    shown_error = error_column("error", _("error"), limit=160)
    whole_error = error_column("error", _("error"))

    @column(_("journal entry"))
    def shown_entry(self, reject: SinkReject) -> SafeString:
        return page_link(JournalEntry, reject.entry_id)

    @column(_("line"))
    def shown_body(self, reject: SinkReject) -> SafeString:
        return pretty_json(json.loads(reject.body))


words.register(
    Sink,
    events={
        "sink_paused": words.Event(
            _("sink paused"), "pause_circle", "warning", said=_("paused {what}")
        ),
        "sink_resumed": words.Event(
            _("sink resumed"), "play_circle", "success", said=_("resumed {what}")
        ),
    },
    pages={Source.SINK: lambda entry: "journal_sink"},
)

admin.site.register(Sink, SinkAdmin)
admin.site.register(SinkReject, SinkRejectAdmin)
