"""The append-only log of every state change, which reports, sinks and timelines read; and the rows
whose edits it records."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, time
from typing import Any, ClassVar, Self, TypeVar

from django.db import models
from django.db.models import Exists, OuterRef
from django.utils.functional import classproperty
from django.utils.translation import gettext_lazy as _

from apps.common.error_lines import line_of_text
from apps.common.fields import KeyField, References
from apps.common.shaped import ShapedField, stored


class Source(models.TextChoices):
    DISPATCH = "dispatch", _("dispatch")  # a hand-out, or its end
    JOB = "job", _("job")  # the end of an attempt, or an operator's arrow
    PLAN = "plan", _("plan")  # an edit of executors, templates and tasks
    SCHEDULE = "schedule", _("schedule")  # an edit of a schedule, or a run without a job
    FLOW = "flow", _("flow")  # a run of a flow: its steps, its end, what people did
    ACCESS = "access", _("access")  # API keys
    PEOPLE = "people", _("people")  # accounts, roles, limits, sign-ins, exports
    WORKER = "worker", _("worker")  # processes that come and go
    SINK = "sink", _("sink")  # sinks that are paused and resumed


def line_of(error: str, summary: str | None) -> str:
    """The line that names the error of an entry: `summary` in its data, where the text does not
    show it."""
    return summary or line_of_text(error)


class Recorded(models.Model):
    """A row whose edits the journal records: where, and by what names."""

    journal_source: ClassVar[str] = Source.PLAN
    # The name of the executor that it is, or is for.
    journal_executor = ""

    class Meta:
        abstract = True

    @property
    def journal_name(self) -> str:
        """The name of the row in entries, because a source has several tables with equal keys."""
        return str(self._meta.model_name)

    @classproperty
    def editable(cls) -> tuple[str, ...]:  # noqa: N805
        """The fields that people and programs set: the list for API, CSV, copies and history."""
        fields = (*cls._meta.concrete_fields, *cls._meta.many_to_many)
        return tuple(field.name for field in fields if field.editable and not field.primary_key)

    def journal_value(self, name: str) -> Any:
        """The value of a field as the journal keeps it: rows by their names, instants as text."""
        value = getattr(self, name)
        if isinstance(value, models.Manager):
            return sorted(map(str, value.all()))
        if isinstance(value, models.Model):
            return str(value)
        return value.isoformat() if isinstance(value, datetime | time) else stored(value)

    def journal_values(self) -> dict[str, Any]:
        """All editable fields as the journal keeps them."""
        return {name: self.journal_value(name) for name in self.editable}


class Versioned(Recorded):
    """A row whose `version` grows by one with every edit, so that a stale form is detected."""

    version = models.PositiveIntegerField(default=1, editable=False)

    class Meta:
        abstract = True

    def next_version(self, *, now: datetime, actor: str) -> tuple[str, ...]:
        """Count the edit; returns the names of the columns that say so, and writes nothing."""
        self.version += 1
        return ("version",)


class Edited(Versioned):
    """A row that people and programs edit, with who created and changed it, and when."""

    created_at = models.DateTimeField(_("created"), editable=False)
    created_by = models.CharField(max_length=160, blank=True, editable=False)
    updated_at = models.DateTimeField(_("changed"), editable=False)
    updated_by = models.CharField(max_length=160, blank=True, editable=False)

    class Meta:
        abstract = True

    @classmethod
    def made(cls, *, now: datetime, actor: str, **fields: Any) -> Self:
        """A new row that is not written."""
        by = actor[:160]
        return cls(**fields, created_at=now, created_by=by, updated_at=now, updated_by=by)

    def next_version(self, *, now: datetime, actor: str) -> tuple[str, ...]:
        self.updated_at, self.updated_by = now, actor[:160]
        return (*super().next_version(now=now, actor=actor), "updated_at", "updated_by")


NamedT = TypeVar("NamedT", bound="NamedVersion")


class NamedQuerySet(models.QuerySet[NamedT]):
    def latest_of(self, name: str) -> NamedT | None:
        """The newest version of a name, or None."""
        return self.filter(name=name).order_by("-version").first()

    def newest(self) -> Self:
        """The newest version of every name."""
        return self.filter(~self._others("version__gt"))

    def oldest(self) -> Self:
        """The oldest version of every name: it gives the name a stable position in lists."""
        return self.filter(~self._others("version__lt"))

    def in_place_of(self, rows: Sequence[NamedT]) -> list[NamedT | None]:
        """The row of the name of each of these, in their order; None where there is none."""
        named = {row.name: row for row in self.filter(name__in=[row.name for row in rows])}
        return [named.get(row.name) for row in rows]

    def marked(self) -> Self:
        """The rows, each with whether it `is_newest`."""
        return self.annotate(is_newest=~self._others("version__gt"))

    def _others(self, compared: str) -> Exists:
        rows = self.model._default_manager.filter(name=OuterRef("name"))
        return Exists(rows.filter(**{compared: OuterRef("version")}))


class NamedVersion(Recorded):
    """One version of a name. A version never changes; an edit makes the next one.

    active → retired | retired → active.
    """

    MAX_NAME: ClassVar[int] = 100

    class Status(models.TextChoices):
        ACTIVE = "active", _("active")  # may be used anew
        RETIRED = "retired", _("retired")  # what has it keeps it

    name = KeyField(_("name"), max_length=MAX_NAME)
    version = models.PositiveIntegerField(_("version"))
    status = KeyField(_("status"), max_length=8, choices=Status.choices, default=Status.ACTIVE)
    created_at = models.DateTimeField(_("created"), editable=False)
    created_by = models.CharField(max_length=160, blank=True, editable=False)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"


class JournalQuerySet(models.QuerySet["JournalEntry"]):
    def timeline(self, source: str, subject_id: int) -> JournalQuerySet:
        """The entries about one subject, oldest first."""
        return self.filter(source=source, subject_id=subject_id).order_by("id")


class JournalEntry(models.Model):
    """One change, written in the transaction that made it.

    No foreign keys, so that inserts and purges do not depend on other tables; no unique key but the
    id. `wait_ms` and `run_ms` belong to the end of an attempt or dispatch. `person` is the actor if
    that is an account or an API key, else NULL; entries of earlier versions have none.
    """

    id = models.BigIntegerField(primary_key=True)
    at = models.DateTimeField(_("at"))
    source = KeyField(_("source"), max_length=16, choices=Source.choices)
    subject_id = models.BigIntegerField(_("subject"))
    event = KeyField(_("event"), max_length=32)
    from_state = KeyField(_("from"), max_length=16, blank=True)
    to_state = KeyField(_("to"), max_length=16, blank=True)
    attempt = models.PositiveIntegerField(_("try"), null=True)
    type_or_task = KeyField(_("type or task"), max_length=128, blank=True)
    executor = KeyField(_("who"), max_length=128, blank=True)
    worker = KeyField(_("worker"), max_length=160, blank=True)
    host = KeyField(_("host"), max_length=128, blank=True)
    actor = models.CharField(_("by"), max_length=160, blank=True)
    person = KeyField(max_length=160, null=True, editable=False)  # type: ignore[misc]
    reason = models.CharField(_("reason"), max_length=500, blank=True)
    wait_ms = models.BigIntegerField(_("wait (ms)"), null=True)
    run_ms = models.BigIntegerField(_("run (ms)"), null=True)
    error = models.TextField(_("error"), blank=True)
    error_key = KeyField(_("error key"), max_length=32, blank=True)
    data = ShapedField(_("data"), null=True)
    trace_id = KeyField(_("trace"), max_length=64, blank=True)

    objects = JournalQuerySet.as_manager()

    class Meta:
        verbose_name = _("journal entry")
        verbose_name_plural = _("journal entries")
        permissions = [("view_payload", _("Can see data of journal entries"))]
        indexes = [
            # The timeline of one subject.
            models.Index(fields=["source", "subject_id", "id"], name="journal_subject"),
            # The entries of one person or API key. Most have neither: the index appends them.
            models.Index(fields=["person", "id"], name="journal_person"),
        ]

    # The title of its page, set by the admin, which has the words of events.
    page_title = ""

    def __str__(self) -> str:
        return self.page_title or f"{self.source} {self.subject_id} {self.event}"

    @property
    def error_line(self) -> str:
        """The line that names the error, "" without one."""
        return line_of(self.error, (self.data or {}).get("summary"))


class Sink(models.Model):
    """How far a sink of JOURNAL_SINKS has got, and whether it works.

    All entries up to the id `after` were acknowledged, and `counts` of each of the last minutes;
    `checked` is the epoch second up to which late commits were looked for.
    """

    name = KeyField(_("name"), max_length=32, unique=True)
    created_at = models.DateTimeField(_("created"))
    after = models.BigIntegerField(editable=False)
    counts = ShapedField(default=dict, editable=False)
    checked = models.BigIntegerField(editable=False)
    sent = models.PositiveBigIntegerField(_("sent"), default=0)
    rejected = models.PositiveBigIntegerField(_("refused"), default=0)
    delivered_at = models.DateTimeField(_("last delivery"), null=True)
    failures = models.PositiveIntegerField(_("failures in a row"), default=0)
    retry_at = models.DateTimeField(_("next try"), null=True)
    error = models.CharField(_("last error"), max_length=500, blank=True)
    is_paused = models.BooleanField(_("paused"), default=False)
    pause_reason = models.CharField(_("reason"), max_length=500, blank=True)

    class Meta:
        verbose_name = _("sink")
        verbose_name_plural = _("sinks")
        default_permissions = ("view", "change")

    def __str__(self) -> str:
        return self.name


class SinkReject(models.Model):
    """An entry that a sink refused for good, with the line that it refused."""

    refers_to: ClassVar[References] = {
        "sink": ("journal.Sink",),
        "entry_id": ("journal.JournalEntry",),
    }

    sink = KeyField(_("sink"), max_length=32)
    entry_id = models.BigIntegerField(_("journal entry"))
    at = models.DateTimeField(_("at"))
    error = models.CharField(_("error"), max_length=500)
    body = models.TextField(_("line"))

    class Meta:
        verbose_name = _("refused entry")
        verbose_name_plural = _("refused entries")
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["sink", "at"], name="journal_reject"),
            models.Index(fields=["at"], name="journal_reject_at"),
        ]

    def __str__(self) -> str:
        return f"{self.sink} {self.entry_id}"
