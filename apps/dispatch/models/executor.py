"""Executors of tasks: users, groups and their members."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from apps.access.models import Limited
from apps.common.fields import KeyField
from apps.dispatch.rules import names
from apps.journal.models import Edited


class ExecutorQuerySet(models.QuerySet["Executor"]):
    def users(self) -> ExecutorQuerySet:
        return self.filter(kind=Executor.Kind.USER)

    def groups(self) -> ExecutorQuerySet:
        return self.filter(kind=Executor.Kind.GROUP)

    def within(self, bound: Iterable[str]) -> ExecutorQuerySet:
        """These users and groups, and the members of the groups."""
        bound = list(bound)
        members = Membership.objects.filter(group__name__in=bound).values("user_id")
        return self.filter(Q(name__in=bound) | Q(id__in=members))

    def user_names(self, bound: Iterable[str]) -> models.QuerySet[Executor, str]:
        """The names of these users and of the members of these groups."""
        return self.within(bound).users().values_list("name", flat=True)

    def names_among(self, names: Iterable[str]) -> models.QuerySet[Executor, str]:
        """The given names that belong to an executor."""
        return self.filter(name__in=names).values_list("name", flat=True)

    def visible_to(self, operator: AbstractBaseUser | AnonymousUser) -> ExecutorQuerySet:
        """All executors, or the ones within the scopes of an operator who has some."""
        bound = OperatorScope.names_of(operator)
        return self if bound is None else self.within(bound)

    def raise_plan_version(self) -> int:
        """Make the cached queues of these executors outdated; returns how many there are.

        The update follows the primary key, so callers lock the rows in one order.
        """
        pks = sorted(self.values_list("pk", flat=True))
        return Executor.objects.filter(pk__in=pks).update(plan_version=F("plan_version") + 1)


class Executor(Edited):
    """A user (`uid_…`) or a group of users (`gid_…`).

    `plan_version` grows with every edit that could change the queue of the executor or, for a
    group, of its members. `version` guards forms against overwriting a newer edit.
    """

    class Kind(models.TextChoices):
        USER = names.USER, _("person")
        GROUP = names.GROUP, _("group")

    # The kind follows from the name.
    editable = ("name", "title", "enabled")

    name = KeyField(_("name"), max_length=names.MAX_CHARACTERS, unique=True)
    kind = KeyField(_("kind"), max_length=8, choices=Kind.choices)
    title = models.CharField(_("title"), max_length=200, blank=True)
    enabled = models.BooleanField(_("enabled"), default=True)
    plan_version = models.PositiveBigIntegerField(default=0, editable=False)
    last_seen_at = models.DateTimeField(_("last seen"), null=True, editable=False)
    # As pages are headed; the name where nobody has set it.
    page_title = ""

    objects = ExecutorQuerySet.as_manager()

    class Meta:
        verbose_name = _("person or group")
        verbose_name_plural = _("people and groups")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.page_title or self.name

    @property
    def shown(self) -> str:
        """How sentences name it: `Ann Baker (uid_ann)`."""
        return f"{self.title} ({self.name})" if self.title else self.name

    @property
    def journal_executor(self) -> str:  # type: ignore[override]
        return self.name

    @property
    def is_group(self) -> bool:
        return self.kind == self.Kind.GROUP


class Membership(models.Model):
    """A user executor belongs to a group executor; many to many."""

    user = models.ForeignKey(Executor, models.CASCADE, related_name="memberships")
    group = models.ForeignKey(Executor, models.CASCADE, related_name="members")
    created_at = models.DateTimeField()

    class Meta:
        verbose_name = _("membership")
        verbose_name_plural = _("memberships")
        constraints = [
            models.UniqueConstraint(fields=["user", "group"], name="membership_once"),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.group}"


class OperatorScope(models.Model):
    """Limits an operator to executors: nothing else is visible, also when the scope is gone.

    A group includes its members, in lists, forms, actions and exports.
    """

    operator = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        related_name="executor_scopes",
        verbose_name=_("operator"),
    )
    executor = models.ForeignKey(
        Executor,
        models.CASCADE,
        related_name="operator_scopes",
        verbose_name=_("person or group"),
    )

    class Meta:
        verbose_name = _("operator scope")
        verbose_name_plural = _("operator scopes")
        constraints = [
            models.UniqueConstraint(fields=["operator", "executor"], name="operator_scope_once"),
        ]

    def __str__(self) -> str:
        return f"{self.operator} sees {self.executor}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        super().save(*args, **kwargs)
        Limited.begin(self.operator_id, Limited.Side.EXECUTORS)

    @classmethod
    def names_of(cls, operator: AbstractBaseUser | AnonymousUser) -> list[str] | None:
        """The executors an operator sees; None for all. Whoever is limited to job types alone sees
        none."""
        if Limited.is_elsewhere(operator, Limited.Side.EXECUTORS):
            return []
        return Limited.names_of(operator, Limited.Side.EXECUTORS)
