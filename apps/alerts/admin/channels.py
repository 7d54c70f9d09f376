"""Channels: where people are notified, and the test that shows what the other side answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django import forms
from django.conf import settings as django_settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.utils.html import escape, format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminSelectWidget

from apps.alerts.admin.base import SettingAdmin
from apps.alerts.conf import conf
from apps.alerts.models import Channel
from apps.alerts.services import settings
from apps.alerts.services.calling import why_not_called
from apps.alerts.services.notify import send_test
from apps.alerts.services.silence import said_of
from apps.common.admin.actions import CustomUrls, actor_of
from apps.common.admin.buttons import Button
from apps.common.admin.display import column, listed, shown_text, translate
from apps.common.admin.pages import Panel
from apps.common.admin.schema_fields import LinesFormField
from apps.common.admin.sent import acting_once
from apps.common.admin.service import ServiceForm
from apps.common.errors import FieldError


def secret_field(title: Any, help_text: Any) -> forms.CharField:
    """A field that is typed and never shown."""
    # Browsers would offer the password of the person.
    widget = UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"})
    return forms.CharField(
        label=title, required=False, max_length=1000, widget=widget, help_text=help_text
    )


class ChannelForm(ServiceForm):
    url = secret_field(
        _("Address"),
        _("Of a webhook or bot; never shown, because it holds a key."),
    )
    secret = secret_field(
        _("Secret"),
        _("Signs webhooks, and messages to bots of DingTalk and Feishu."),
    )
    recipients = LinesFormField(
        label=_("Recipients"),
        is_mandatory=True,
        required=False,
        help_text=_("Mail addresses, one on each line."),
    )

    language = forms.ChoiceField(
        label=_("Language"),
        choices=django_settings.LANGUAGES,
        widget=UnfoldAdminSelectWidget(choices=django_settings.LANGUAGES),
        help_text=_("Of the messages."),
    )

    class Meta:
        model = Channel
        fields = Channel.editable
        help_texts: ClassVar = {"is_default": _("Alert rules that name no channel use it.")}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in Channel.secrets:
            self.initial[name] = ""
            if self.instance.pk and name in self.fields:
                self._explain(name, gettext("Empty: as it is."))
        if not self.instance.pk and "is_default" in self.fields:
            # Without one for all rules, alerts of most rules would reach nobody.
            self.initial["is_default"] = not Channel.objects.filter(is_default=True).exists()
        if "url" in self.fields:
            hosts = gettext("ALERT_HOSTS allows: %s.") % listed(conf.ALERT_HOSTS)
            self._explain("url", hosts)

    def _explain(self, name: str, text: str) -> None:
        """Add to the help of the field."""
        self.fields[name].help_text = f"{self.fields[name].help_text} {escape(text)}"

    def rule_errors(self) -> Sequence[FieldError]:
        # Secrets that were left empty stay as they are.
        typed = self.cleaned_data.items()
        given = {name: value for name, value in typed if value or name not in Channel.secrets}
        return settings.faults(self.instance, given)


class ChannelAdmin(SettingAdmin):
    form = ChannelForm
    when_empty = _("A channel is where people are notified: a mail address, a bot or a webhook.")
    list_display = ("name", "kind", "shown_host", "shown_language", "is_default", "enabled")
    list_mobile = (("kind", "name"), ("shown_host", "enabled"))
    search_fields = ("name",)
    search_help_text = _("Part of a name")
    ordering = ("name",)
    readonly_fields = ("shown_host",)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        names = ["name", "kind", "shown_host", "recipients", "language", "is_default", "enabled"]
        if obj is None:
            names.remove("shown_host")
        # Nobody reads them; who may not change the channel has no field for them.
        may = self.has_add_permission(request) if obj is None else False
        if may or self.has_change_permission(request, obj):
            names[names.index("recipients") : names.index("recipients")] = Channel.secrets
        return [(None, {"fields": names})]

    @column(_("host"))
    def shown_host(self, row: Channel) -> str:
        return shown_text(row.host or listed(row.recipients), limit=80)

    @column(_("language"))
    def shown_language(self, row: Channel) -> str:
        return str(dict(django_settings.LANGUAGES).get(row.language, row.language))

    def trouble(self, row: Channel) -> str:
        return why_not_called(row)

    def top_panels(self, request: HttpRequest, row: Channel) -> list[Panel]:
        panels = (
            (_("No message can be sent"), why_not_called(row)),
            (_("No answer"), said_of(row)),
        )
        return [
            Panel(title, format_html('<p role="note">{}</p>', shown_text(translate(why))))
            for title, why in panels
            if why
        ]

    # --- test -------------------------------------------------------------------------------------
    def get_custom_urls(self) -> CustomUrls:
        test = ("<int:pk>/test/", "alerts_channel_test", self.test_view)
        return (test, *super().get_custom_urls())

    def buttons(self, request: HttpRequest, row: Channel) -> list[Button]:
        found = super().buttons(request, row)
        if self.has_change_permission(request, row):
            url = self.url("test", row.pk)
            found.insert(0, Button(url=url, text=_("Send test"), icon="send"))
        return found

    def test_view(self, request: HttpRequest, pk: int, *, model_admin: Any) -> HttpResponseBase:
        """Ask (GET), then make a test and lead to its delivery, which shows the answer (POST)."""
        row = self.existing(request, pk, may="change")
        if request.method == "POST":
            with acting_once(request) as act:
                if act.was_sent:
                    return redirect("admin:alerts_delivery_changelist")
                sent = send_test(row, actor=actor_of(request))
                act.is_done = True
            return redirect("admin:alerts_delivery_change", sent.pk)
        return self.page(
            request,
            "admin/channel_test.html",
            title=gettext("Test of %(channel)s") % {"channel": row},
            channel=row,
            host=shown_text(row.host or listed(row.recipients)),
            url=self.change_url(row.pk),
        )


admin.site.register(Channel, ChannelAdmin)
