"""The job types that a person is limited to."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.access.directory import Users
from apps.access.models import Limited
from apps.common.fields import KeyField, References
from apps.jobs.models.bounds import Bounds
from apps.jobs.rules.type_settings import MAX_NAME


class JobScope(models.Model):
    """Limits an operator to jobs of this type, by its name: it outlives the type."""

    refers_to: ClassVar[References] = {"type": ("jobs.JobType",)}

    operator = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        related_name="job_scopes",
        verbose_name=_("operator"),
    )
    type = KeyField(_("job type"), max_length=MAX_NAME)

    class Meta:
        verbose_name = _("job scope")
        verbose_name_plural = _("job scopes")
        constraints = [
            models.UniqueConstraint(fields=["operator", "type"], name="job_scope_once"),
        ]

    def __str__(self) -> str:
        return f"{self.operator} sees {self.type}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        super().save(*args, **kwargs)
        Limited.begin(self.operator_id, Limited.Side.JOB_TYPES)

    @classmethod
    def names_of(cls, operator: AbstractBaseUser | AnonymousUser) -> list[str] | None:
        """The job types an operator is limited to; None for no limit, as superusers have."""
        return Limited.names_of(operator, Limited.Side.JOB_TYPES)


def bounds_of(operator: AbstractBaseUser | AnonymousUser) -> Bounds:
    """The jobs that a person may see: by type, and those of a user by executor."""
    executors = Limited.names_of(operator, Limited.Side.EXECUTORS)
    users = None if executors is None else Users(frozenset(executors))
    return Bounds(types=JobScope.names_of(operator), users=users, takes_nobodys=True)
