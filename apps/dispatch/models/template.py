"""Named, versioned declarations of what a task's params must carry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import models
from django.db.models import Exists, OuterRef
from django.utils.translation import gettext_lazy as _

from apps.common.fields import KeyField
from apps.common.json.search import saying
from apps.journal.models import Recorded


class TemplateQuerySet(models.QuerySet["Template"]):
    def latest_of(self, name: str) -> Template | None:
        """The newest version of a name, or None."""
        return self.filter(name=name).order_by("-version").first()

    def schemas_with_secrets(self) -> Iterable[Any]:
        """The schemas that may declare secrets."""
        return saying(self, "schema", "secret")

    def newest(self) -> TemplateQuerySet:
        """The newest version of every name."""
        later = Template.objects.filter(name=OuterRef("name"), version__gt=OuterRef("version"))
        return self.filter(~Exists(later))

    def oldest(self) -> TemplateQuerySet:
        """The oldest version of every name: it gives the name a stable position in lists."""
        earlier = Template.objects.filter(name=OuterRef("name"), version__lt=OuterRef("version"))
        return self.filter(~Exists(earlier))


class Template(Recorded):
    """One version of a template. A version never changes; an edit makes the next one.

    active → retired | retired → active. A version that a task has used is kept for ever.
    """

    class Status(models.TextChoices):
        ACTIVE = "active", _("active")  # new tasks may use it
        RETIRED = "retired", _("retired")  # tasks that have it keep it, new ones cannot choose it

    name = KeyField(_("name"), max_length=100)
    version = models.PositiveIntegerField(_("version"))
    schema = models.JSONField(_("schema"))
    status = KeyField(_("status"), max_length=8, choices=Status.choices, default=Status.ACTIVE)
    first_used_at = models.DateTimeField(_("first used"), null=True, editable=False)
    created_at = models.DateTimeField(_("created"), editable=False)
    created_by = models.CharField(max_length=160, blank=True, editable=False)

    objects = TemplateQuerySet.as_manager()

    class Meta:
        verbose_name = _("template")
        verbose_name_plural = _("templates")
        ordering = ["name", "-version"]
        constraints = [
            models.UniqueConstraint(fields=["name", "version"], name="template_version_once"),
        ]

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"
