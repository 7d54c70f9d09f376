from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from django.apps import AppConfig
from django.core.checks import Tags, register
from django.db import DEFAULT_DB_ALIAS
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


def _make_types(*, using: str, plan: Sequence[tuple[object, bool]] = (), **_: Any) -> None:
    """Make the types of all handlers, so that a web process that starts before any worker takes
    jobs of them. Not on the way back, when the table may lack columns."""
    from apps.jobs.handlers import registry
    from apps.jobs.services import types

    is_way_back = any(backwards for _migration, backwards in plan)
    # Handlers that are wrong are said by the checks.
    if using == DEFAULT_DB_ALIAS and not is_way_back and not registry.known.problems:
        types.make_types(actor="migrate")


class JobsConfig(AppConfig):
    name = "apps.jobs"
    label = "jobs"
    verbose_name = _("Jobs")

    def ready(self) -> None:
        from apps.access import directory
        from apps.access.rules.clients import Binding
        from apps.common import on_demand, tidy
        from apps.common.masking.names import declared_in
        from apps.jobs.handlers import checks, discovery
        from apps.jobs.models import JobScope
        from apps.jobs.services import admission, inbox, types
        from apps.jobs.services.pool_bucket import forget_buckets
        from apps.jobs.services.register import forget_gone
        from apps.jobs.services.request import forget_requests

        discovery.discover()
        if find_spec("django.tasks") or find_spec("django_tasks"):
            from apps.jobs import tasks_backend

            tasks_backend.register_tasks()
        found = directory.Directory(
            existing=types.names_among,
            limits=lambda person: JobScope.objects.filter(operator_id=person).values_list("type"),
        )
        directory.register(Binding.JOB_TYPES, found)
        declared_in(types.schemas_with_secrets)
        post_migrate.connect(_make_types, sender=self, dispatch_uid="jobs.types")
        register(checks.check_handlers)
        register(checks.check_types, Tags.database)
        register(checks.check_settings, Tags.database)
        on_demand.register(inbox.SWEEP, inbox.has_waiting)
        on_demand.register(admission.SWEEP, admission.has_work)
        tidy.register("workers", forget_gone)
        tidy.register("buckets", forget_buckets)
        tidy.register("requests", forget_requests)
