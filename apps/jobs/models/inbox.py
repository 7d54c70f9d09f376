"""Jobs to be that programs write with one INSERT, in the transaction of their own data."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.common.fields import KeyField, References, UtcNow
from apps.common.json_rules import MAX_BYTES
from apps.jobs.models.scope import bounds_of
from apps.journal.models import Source, Versioned

MAX_WORD = 255
# The largest size of a context as text that is read: with blanks and escapes the text may be longer
# than the JSON itself.
MAX_TEXT = 4 * MAX_BYTES
# The letters that are kept of a larger one, when its row goes.
MAX_SHOWN = 4_000


class InboxQuerySet(models.QuerySet[Any]):
    def visible_to(self, operator: AbstractBaseUser | AnonymousUser) -> InboxQuerySet:
        """All rows, or the ones within the limits of an operator, as for jobs."""
        bounds = bounds_of(operator)
        return self if bounds.are_open else self.filter(bounds.condition())


class InboxRow(Versioned):
    """One job to be. The sweep makes a job of it and deletes it, in one transaction.

    Anybody who may INSERT writes it, so a column takes more than a job may have, NULL is as if
    nothing were said, and the service says what is wrong: then `refused_at` and `error` are set,
    and the row waits until a person corrects or discards it. Times are in UTC. `context` is the
    text of a JSON object; `run_at` is text as well on SQLite, whatever somebody wrote.
    """

    journal_source = Source.JOB
    refers_to: ClassVar[References] = {"type": ("jobs.JobType",)}

    version = models.PositiveIntegerField(default=1, db_default=1, editable=False)
    type = KeyField(_("type"), max_length=MAX_WORD)
    job_key = KeyField(  # type: ignore[misc]
        _("key"), max_length=MAX_WORD, blank=True, null=True, db_default=""
    )
    context = models.TextField(  # noqa: DJ001 - others may write NULL
        _("context"), blank=True, null=True, db_default="{}"
    )
    run_at = models.DateTimeField(_("run at"), blank=True, null=True)
    priority = models.IntegerField(_("priority"), blank=True, null=True)
    user_id = KeyField(  # type: ignore[misc]
        _("user"), max_length=MAX_WORD, blank=True, null=True, db_default=""
    )
    unique_job = models.BooleanField(_("unique"), blank=True, null=True, db_default=False)
    created_at = models.DateTimeField(_("created"), null=True, db_default=UtcNow(), editable=False)
    refused_at = models.DateTimeField(_("refused"), null=True, editable=False)
    error = models.TextField(  # noqa: DJ001
        _("error"), null=True, db_default="", editable=False
    )

    objects = InboxQuerySet.as_manager()

    class Meta:
        # The name that other programs write.
        db_table = "jobs_inbox"
        verbose_name = _("row of the inbox")
        verbose_name_plural = _("inbox")
        # The permissions of jobs apply here.
        default_permissions = ()
        indexes = [
            # Waiting rows, and refused rows, each in order.
            models.Index(fields=["refused_at", "id"], name="jobs_inbox_waiting"),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.pk}"

    @property
    def is_too_large(self) -> bool:
        """Whether the context is not even read."""
        return len((self.context or "").encode()) > MAX_TEXT

    def journal_value(self, name: str) -> Any:
        value = super().journal_value(name)
        # Whole, an entry could be longer than a statement may be.
        is_cut = name == "context" and self.is_too_large
        return f"{value[:MAX_SHOWN]} …" if is_cut else value
