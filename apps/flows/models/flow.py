"""Flows, in versions."""

from __future__ import annotations

from functools import cached_property

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.db.models import Exists, OuterRef
from django.utils.translation import gettext_lazy as _

from apps.common.fields import KeyField
from apps.flows.models.reach import are_within
from apps.flows.rules.definition import Definition
from apps.jobs.models import Bounds, bounds_of
from apps.journal.models import Recorded, Source

MAX_NAME = 100
MAX_TITLE = 200


class FlowQuerySet(models.QuerySet["Flow"]):
    def latest_of(self, name: str) -> Flow | None:
        """The newest version of a name, or None."""
        return self.filter(name=name).order_by("-version").first()

    def newest(self) -> FlowQuerySet:
        """The newest version of every name."""
        later = Flow.objects.filter(name=OuterRef("name"), version__gt=OuterRef("version"))
        return self.filter(~Exists(later))

    def within(self, bounds: Bounds) -> FlowQuerySet:
        """Keep the flows that reach no further than the bounds; their definitions are read."""
        if bounds.are_open:
            return self
        read = {pk: Definition(said) for pk, said in self.values_list("pk", "definition")}
        fits = are_within(read.values(), bounds)
        return self.filter(pk__in=[pk for pk, fit in zip(read, fits, strict=True) if fit])

    def visible_to(self, operator: AbstractBaseUser | AnonymousUser) -> FlowQuerySet:
        """All flows, or those that reach no further than the limits of an operator."""
        return self.within(bounds_of(operator))


class Flow(Recorded):
    """One version of a flow. A version never changes; an edit makes the next one.

    active → retired | retired → active. Runs have a copy of the definition.
    """

    class Status(models.TextChoices):
        ACTIVE = "active", _("active")  # can be started
        RETIRED = "retired", _("retired")  # runs go on, new ones are refused

    journal_source = Source.FLOW

    name = KeyField(_("name"), max_length=MAX_NAME)
    version = models.PositiveIntegerField(_("version"))
    title = models.CharField(_("title"), max_length=MAX_TITLE, blank=True)
    definition = models.JSONField(_("definition"))
    status = KeyField(_("status"), max_length=8, choices=Status.choices, default=Status.ACTIVE)
    created_at = models.DateTimeField(_("created"), editable=False)
    created_by = models.CharField(max_length=160, blank=True, editable=False)

    objects = FlowQuerySet.as_manager()

    class Meta:
        verbose_name = _("flow")
        verbose_name_plural = _("flows")
        # A version is never deleted: the flow is retired.
        default_permissions = ("view", "add", "change")
        permissions = [("start_flow", _("Can start flows"))]
        constraints = [
            models.UniqueConstraint(fields=["name", "version"], name="flow_version_once"),
        ]

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"

    @property
    def journal_name(self) -> str:
        return self.name

    @cached_property
    def read(self) -> Definition:
        """The definition, read."""
        return Definition(self.definition)
