from importlib.util import find_spec

from django.apps import AppConfig
from django.core.checks import Tags, register
from django.utils.translation import gettext_lazy as _


class JobsConfig(AppConfig):
    name = "apps.jobs"
    label = "jobs"
    verbose_name = _("Jobs")

    def ready(self) -> None:
        from apps.access import directory
        from apps.access.rules.clients import Binding
        from apps.common import tidy
        from apps.common.masking.names import declared_in
        from apps.jobs.handlers import checks, discovery
        from apps.jobs.models import JobScope
        from apps.jobs.services import types
        from apps.jobs.services.pool_bucket import forget_buckets
        from apps.jobs.services.register import forget_gone
        from apps.jobs.services.request import forget_requests

        discovery.discover()
        if find_spec("django.tasks") or find_spec("django_tasks"):
            from apps.jobs import tasks_backend

            tasks_backend.register_queues()
        found = directory.Directory(
            existing=types.names_among,
            limits=lambda person: JobScope.objects.filter(operator_id=person).values_list("type"),
        )
        directory.register(Binding.JOB_TYPES, found)
        declared_in(types.schemas_with_secrets)
        register(checks.check_handlers)
        register(checks.check_types, Tags.database)
        tidy.register("workers", forget_gone)
        tidy.register("buckets", forget_buckets)
        tidy.register("requests", forget_requests)
