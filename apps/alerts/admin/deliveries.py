"""Deliveries: each message to each channel, and what came of it."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from apps.alerts.models import MAX_ANSWER, Alert, Channel, Delivery
from apps.common.admin.display import column, shown_text, state_label, time_column
from apps.common.admin.filters import list_filters
from apps.common.admin.html import page_link
from apps.common.admin.list_head import NextStep
from apps.common.admin.live import LiveAdmin
from apps.common.admin.machine_rows import MachineRowAdmin
from apps.common.admin.pages import Panel
from apps.common.filtersets import Choice, Number, RowFilters
from apps.common.masking import redact
from apps.jobs.models import Job
from apps.journal.admin.words import reason_of

LIVE_SECONDS = 1.0
STATE_COLOURS = {Delivery.State.SENT: "success", Delivery.State.FAILED: "danger"}


class DeliveryFilters(RowFilters):
    state = Choice(Delivery.State.choices, label=_("state"))
    alert = Number(label=_("alert"))


class DeliveryAdmin(LiveAdmin, MachineRowAdmin):
    when_empty = _("Nothing was sent in the time for which deliveries are kept.")
    next_steps = (
        NextStep(_("See the channels"), "admin:alerts_channel_changelist", "alerts.view_channel"),
    )
    list_display = (
        "number",
        "shown_created",
        "shown_event",
        "shown_channel",
        "shown_state",
        "code",
        "shown_answer",
    )
    list_mobile = (("shown_state", "shown_event"), ("shown_channel", "shown_created"))
    list_tabs = "state"
    list_filter = list_filters(DeliveryFilters)
    list_select_related = ("channel",)
    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("shown_event", "shown_channel"),
                    ("shown_created", "shown_ended"),
                    ("shown_alert", "shown_job"),
                    "shown_title",
                    "shown_message",
                )
            },
        ),
    )

    shown_created = time_column("created_at", _("created"))
    shown_ended = time_column("ended_at", _("ended"))
    shown_state = state_label("state", STATE_COLOURS, _("state"), ordering=False)

    # --- the page ---------------------------------------------------------------------------------
    def live_seconds(self, row: Delivery) -> float | None:
        return LIVE_SECONDS if row.state == Delivery.State.WAITING else None

    def top_panels(self, request: HttpRequest, row: Delivery) -> list[Panel]:
        context = {
            "state": self.shown_state(row),
            "code": row.code,
            "answer": shown_text(reason_of(row.answer), limit=MAX_ANSWER),
        }
        drawn = render_to_string("admin/includes/delivery_state.html", context)
        return [Panel(_("Now"), drawn)]

    # --- the columns ------------------------------------------------------------------------------
    @column(_("number"))
    def number(self, delivery: Delivery) -> int:
        return delivery.pk

    @column(_("event"))
    def shown_event(self, delivery: Delivery) -> str:
        return str(delivery.get_event_display())

    @column(_("channel"))
    def shown_channel(self, delivery: Delivery) -> SafeString:
        return page_link(Channel, delivery.channel_id, shown_text(delivery.channel.name))

    @column(_("alert"))
    def shown_alert(self, delivery: Delivery) -> SafeString | str:
        if delivery.alert_id is None:
            return "–"
        return page_link(Alert, delivery.alert_id)

    @column(_("job"))
    def shown_job(self, delivery: Delivery) -> SafeString | str:
        if delivery.job is None:
            return "–"
        return page_link(Job, delivery.job)

    @column(_("answer"))
    def shown_answer(self, delivery: Delivery) -> str:
        return shown_text(reason_of(delivery.answer), limit=80)

    @column(_("title"))
    def shown_title(self, delivery: Delivery) -> str:
        return shown_text(redact(delivery.message["title"]))

    @column(_("message"))
    def shown_message(self, delivery: Delivery) -> str:
        return shown_text(redact(delivery.message["text"]))


admin.site.register(Delivery, DeliveryAdmin)
