"""Flows, in versions."""

from __future__ import annotations

from functools import cached_property

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop

from apps.common.messages import Message
from apps.common.shaped import OBJECT, ShapedField
from apps.flows.models.reach import are_within
from apps.flows.rules.definition import Definition, is_readable
from apps.jobs.models import Bounds, bounds_of
from apps.journal.models import NamedQuerySet, NamedVersion, Source

MAX_NAME = NamedVersion.MAX_NAME
MAX_TITLE = 200
DEFINITION = OBJECT._replace(
    name=Message(gettext_noop("a definition of a flow")), check=is_readable, empty={"steps": []}
)


class FlowQuerySet(NamedQuerySet["Flow"]):
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


class Flow(NamedVersion):
    """One version of a flow. Runs have a copy of the definition, so they go on when it is
    retired."""

    journal_source = Source.FLOW

    title = models.CharField(_("title"), max_length=MAX_TITLE, blank=True)
    definition = ShapedField(_("definition"), shape=DEFINITION)

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

    @property
    def journal_name(self) -> str:
        return self.name

    @cached_property
    def read(self) -> Definition:
        """The definition, read."""
        return Definition(self.definition)
