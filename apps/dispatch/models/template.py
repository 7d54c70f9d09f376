"""Named, versioned declarations of what a task's params must carry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.common.json.search import saying
from apps.journal.models import NamedQuerySet, NamedVersion


class TemplateQuerySet(NamedQuerySet["Template"]):
    def schemas_with_secrets(self) -> Iterable[Any]:
        """The schemas that may declare secrets."""
        return saying(self, "schema", "secret")


class Template(NamedVersion):
    """One version of a template. A version that a task has used is kept for ever; of a retired one,
    tasks that have it keep it, and new ones cannot choose it."""

    schema = models.JSONField(_("schema"))
    first_used_at = models.DateTimeField(_("first used"), null=True, editable=False)

    objects = TemplateQuerySet.as_manager()

    class Meta:
        verbose_name = _("template")
        verbose_name_plural = _("templates")
        ordering = ["name", "-version"]
        constraints = [
            models.UniqueConstraint(fields=["name", "version"], name="template_version_once"),
        ]
