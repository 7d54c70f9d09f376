"""Rules that watch the platform, the alerts they open, reports that are sent regularly, and how
people get both."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar
from urllib.parse import urlsplit

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.functional import lazy
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop, pgettext_lazy

from apps.alerts.rules.judge import Open
from apps.alerts.rules.quiet import QuietHours
from apps.common.admin.display import translate
from apps.common.fields import KeyField, References

# Migrations look for it here.
from apps.common.fields import default_time_zone as default_time_zone
from apps.common.messages import Message
from apps.common.sealed import SealedField, Unreadable
from apps.common.shaped import OBJECT, TEXTS, ShapedField
from apps.journal.models import Edited, Recorded
from apps.reports.rules.limits import Limit
from apps.reports.watches import FOR_RULES, UNKNOWN
from apps.reports.watches.base import RuleWatch
from apps.reports.watches.subjects import names_of
from apps.schedules.models import Schedule

# A message of a watch in the language of the page.
said = lazy(translate, str)
MAX_NAME = 100
MAX_SUBJECT = 200
MAX_QUERY = 1_000
MAX_ANSWER = 500
EVERY_DAY = "1234567"


def _is_message(found: Mapping[str, Any]) -> bool:
    texts = [found.get(name) for name in ("title", "text")]
    if "plan" in found:
        # Of a report, which is written when it is sent.
        rest = type(found["plan"]) is int and isinstance(found.get("at"), str)
    else:
        texts += [found.get("url"), found.get("open")]
        rest = isinstance(found.get("wire"), dict)
    return rest and all(isinstance(each, str) for each in texts)


MESSAGE = OBJECT._replace(
    name=Message(gettext_noop("a message")), check=_is_message, empty={"title": "", "text": ""}
)


def default_language() -> str:
    return str(settings.LANGUAGE_CODE)


class Channel(Edited):
    """An address at which people are notified. `url` and `secret` are never shown, and sealed in
    the database, because the address of a bot holds its key.

    A server that kept us waiting for nothing has done so since `silent_since`, until it answers;
    nobody calls it before `silent_until`.
    """

    class Kind(models.TextChoices):
        WEBHOOK = "webhook", _("webhook")
        MAIL = "mail", _("mail")
        DINGTALK = "dingtalk", _("DingTalk")
        WECOM = "wecom", _("WeCom")
        FEISHU = "feishu", _("Feishu")
        SLACK = "slack", _("Slack")

    # Never shown, not even in the journal.
    secrets = ("url", "secret")

    name = models.CharField(_("name"), max_length=MAX_NAME, unique=True)
    kind = KeyField(_("kind"), max_length=16, choices=Kind.choices)
    url = SealedField(_("address"), blank=True)
    secret = SealedField(_("secret"), blank=True)
    recipients = ShapedField(_("recipients"), default=list, blank=True, shape=TEXTS)
    language = KeyField(_("language"), max_length=16, default=default_language)
    enabled = models.BooleanField(_("enabled"), default=True)
    # Rules that name no channel use it.
    is_default = models.BooleanField(_("for all rules"), default=False, db_default=False)
    silent_since = models.DateTimeField(null=True, editable=False)
    silent_until = models.DateTimeField(null=True, editable=False)

    class Meta:
        verbose_name = _("channel")
        verbose_name_plural = _("channels")

    def __str__(self) -> str:
        return self.name

    @property
    def journal_name(self) -> str:
        return f"channel:{self.pk}"

    def journal_value(self, name: str) -> Any:
        if name in self.secrets:
            return "…" if getattr(self, name) else ""
        return super().journal_value(name)

    @property
    def is_readable(self) -> bool:
        """Whether a present key opens its address and secret."""
        return not any(isinstance(each, Unreadable) for each in (self.url, self.secret))

    @property
    def host(self) -> str:
        """The host of its address, which is no secret."""
        return urlsplit(self.url).netloc.rpartition("@")[2] if self.url else ""


class AlertRule(Edited):
    """A watch with a limit of its own, and the channels that are notified."""

    KINDS: ClassVar = [(kind, said(each.label)) for kind, each in FOR_RULES.items()]

    class Severity(models.TextChoices):
        WARNING = "warning", _("warning")
        CRITICAL = "critical", _("critical")

    name = models.CharField(_("name"), max_length=MAX_NAME, unique=True)
    kind = KeyField(_("kind"), max_length=16, choices=KINDS)
    target = KeyField(_("of"), max_length=MAX_SUBJECT, blank=True)
    threshold = models.FloatField(_("threshold"), null=True, blank=True)
    for_seconds = models.PositiveIntegerField(_("for (s)"), null=True, blank=True)
    severity = KeyField(
        _("severity"), max_length=16, choices=Severity.choices, default=Severity.WARNING
    )
    quiet_from = models.TimeField(_("quiet from"), null=True, blank=True)
    quiet_to = models.TimeField(_("quiet to"), null=True, blank=True)
    quiet_zone = KeyField(_("time zone"), max_length=64, blank=True)
    quiet_days = KeyField(_("days"), max_length=7, default=EVERY_DAY)
    repeat_minutes = models.PositiveIntegerField(_("repeat (min)"), null=True, blank=True)
    channels = models.ManyToManyField(Channel, blank=True, verbose_name=_("channels"))
    enabled = models.BooleanField(_("enabled"), default=True)

    # The channels that its alerts go to, set by the list.
    takers: list[Channel]

    class Meta:
        verbose_name = _("alert rule")
        verbose_name_plural = _("alert rules")

    def __str__(self) -> str:
        return self.name

    @property
    def journal_name(self) -> str:
        return f"alert-rule:{self.pk}"

    @property
    def watch(self) -> RuleWatch:
        return FOR_RULES.get(self.kind, UNKNOWN)

    @property
    def limit(self) -> Limit:
        """The limit of the watch, with the values that the rule replaces."""
        limit = self.watch.limit
        if limit.threshold is not None and self.threshold is not None:
            limit = limit._replace(threshold=self.threshold)
        if self.for_seconds is not None:
            limit = limit._replace(for_seconds=self.for_seconds)
        return limit

    def is_quiet(self, now: datetime) -> bool:
        if self.quiet_from is None or self.quiet_to is None:
            return False
        zone = self.quiet_zone or settings.TIME_ZONE
        hours = QuietHours(self.quiet_from, self.quiet_to, zone, {*map(int, self.quiet_days)})
        return hours.has(now)


class Event(models.TextChoices):
    """The event that a message is about."""

    FIRING = "alert.firing", pgettext_lazy("alert", "firing")
    RESOLVED = "alert.resolved", pgettext_lazy("alert", "resolved")
    DIGEST = "alert.digest", _("digest")
    TEST = "test", _("test")
    REPORT = "report", _("report")


class Alert(Recorded):
    """One subject of a rule that is wrong: pending → firing → resolved. A pending alert whose
    subject is well again is deleted.

    `open_key` is NULL once it is resolved and unique until then, so a subject has one open alert
    at most. `unsent` is the event that people are still to be notified of, `is_held` that quiet
    hours have held it back; `notified_at` is when they were last notified that it fires.
    """

    class State(models.TextChoices):
        PENDING = "pending", pgettext_lazy("alert", "pending")
        FIRING = "firing", pgettext_lazy("alert", "firing")
        SNOOZED = "snoozed", _("snoozed")
        RESOLVED = "resolved", pgettext_lazy("alert", "resolved")

    rule = models.ForeignKey(
        AlertRule, models.CASCADE, related_name="alerts", verbose_name=_("alert rule")
    )
    subject = KeyField(_("subject"), max_length=MAX_SUBJECT)
    value = models.FloatField(_("value"))
    since = models.DateTimeField(_("since"))
    fired_at = models.DateTimeField(_("fired"), null=True)
    notified_at = models.DateTimeField(_("notified"), null=True)
    resolved_at = models.DateTimeField(_("resolved"), null=True)
    snoozed_until = models.DateTimeField(_("snoozed until"), null=True)
    snoozed_by = models.CharField(_("snoozed by"), max_length=160, blank=True)
    open_key = KeyField(  # type: ignore[misc]
        max_length=MAX_SUBJECT + 32, null=True, unique=True, editable=False
    )
    unsent = KeyField(max_length=16, blank=True, editable=False)
    is_held = models.BooleanField(default=False, editable=False)

    class Meta:
        verbose_name = _("alert")
        verbose_name_plural = _("alerts")
        default_permissions = ("view",)
        permissions = [("snooze_alert", _("Can snooze alerts"))]
        indexes = [
            # Alerts of which people are still to be notified.
            models.Index(fields=["unsent", "id"], name="alert_unsent"),
            # The list by state, and the purge.
            models.Index(fields=["resolved_at", "id"], name="alert_resolved"),
        ]

    def __str__(self) -> str:
        return f"{self.rule}: {self.name}"

    @property
    def journal_name(self) -> str:
        return f"alert:{self.pk}"

    @cached_property
    def name(self) -> str:
        """The name of its subject for people."""
        return names_of([self.subject])[self.subject]

    @property
    def opened(self) -> Open:
        return Open(self.since, self.fired_at, self.notified_at, self.snoozed_until)

    def is_snoozed(self, now: datetime) -> bool:
        return self.snoozed_until is not None and now < self.snoozed_until

    def state(self, now: datetime) -> State:
        if self.resolved_at is not None:
            return self.State.RESOLVED
        if self.fired_at is None:
            return self.State.PENDING
        return self.State.SNOOZED if self.is_snoozed(now) else self.State.FIRING

    @classmethod
    def in_state(cls, state: str, now: datetime) -> Q:
        """The condition that an alert is in this state."""
        fires = Q(resolved_at=None, fired_at__isnull=False)
        snoozed = Q(snoozed_until__gt=now)
        conditions: dict[str, Q] = {
            cls.State.PENDING: Q(resolved_at=None, fired_at=None),
            cls.State.FIRING: fires & (Q(snoozed_until=None) | ~snoozed),
            cls.State.SNOOZED: fires & snoozed,
            cls.State.RESOLVED: Q(resolved_at__isnull=False),
        }
        return conditions[state]


class ReportPlan(Schedule):
    """A report that is sent to channels again and again, as its owner may see it: a schedule of the
    platform's own type `send_report`.

    The owner is whoever saved it last. `query` is that of the report page. Its runs are those of
    the schedule; the deliveries of a run have the job of the run.
    """

    # What the journal lists of a new one.
    editable = (
        *("title", "query", "channels", "owner", "rule", "time_zone", "start_at", "job_type"),
    )

    query = models.CharField(_("report"), max_length=MAX_QUERY)
    channels = models.ManyToManyField(Channel, blank=True, verbose_name=_("channels"))
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        related_name="+",
        verbose_name=_("owner"),
    )

    class Meta:
        # Release 0.3.0 has its plans in a table of the usual name.
        db_table = "alerts_report"
        verbose_name = _("report plan")
        verbose_name_plural = _("report plans")


class Delivery(models.Model):
    """One message to one channel: waiting → sent, failed. `message` holds no secret.

    Whoever sends it has it until `taken_until`, so that a worker and the sweep do not send it both.
    `next_at` is when its next try is due, NULL before the first one, which is due at once.
    """

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting")
        SENT = "sent", _("sent")
        FAILED = "failed", _("failed")

    refers_to: ClassVar[References] = {"job": ("jobs.Job",)}

    alert = models.ForeignKey(
        Alert, models.CASCADE, null=True, related_name="deliveries", verbose_name=_("alert")
    )
    channel = models.ForeignKey(
        Channel, models.CASCADE, related_name="deliveries", verbose_name=_("channel")
    )
    event = KeyField(_("event"), max_length=16, choices=Event.choices)
    message = ShapedField(editable=False, shape=MESSAGE)
    job = models.BigIntegerField(_("job"), null=True)
    state = KeyField(_("state"), max_length=8, choices=State.choices, default=State.WAITING)
    code = models.IntegerField(_("code"), null=True)
    answer = models.CharField(_("answer"), max_length=MAX_ANSWER, blank=True)
    tries = models.PositiveSmallIntegerField(default=0, db_default=0, editable=False)
    next_at = models.DateTimeField(null=True, editable=False)
    taken_until = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(_("created"))
    ended_at = models.DateTimeField(_("ended"), null=True)

    class Meta:
        verbose_name = _("delivery")
        verbose_name_plural = _("deliveries")
        default_permissions = ("view",)
        indexes = [
            # How many a channel had in the last minute.
            models.Index(fields=["channel", "created_at"], name="delivery_lately"),
            # The purge.
            models.Index(fields=["created_at"], name="delivery_created"),
            # Deliveries that no worker has sent.
            models.Index(fields=["state", "created_at"], name="delivery_waiting"),
        ]
        constraints = [
            # The job of a report sends it to many channels, and to each of them once.
            models.UniqueConstraint(fields=["job", "channel"], name="delivery_once"),
        ]

    def __str__(self) -> str:
        return f"{self.get_event_display()} → {self.channel}"
