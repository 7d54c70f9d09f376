from django.apps import AppConfig
from django.core.checks import Tags, register
from django.utils.translation import gettext_lazy as _

from apps.access import members


class DispatchConfig(AppConfig):
    name = "apps.dispatch"
    label = "dispatch"
    verbose_name = _("Dispatch")

    def ready(self) -> None:
        from apps.access import existing
        from apps.common.masking.names import declared_in
        from apps.dispatch.checks import check_template_names, check_template_schemas
        from apps.dispatch.models import Executor, OperatorScope, Template

        register(check_template_names, Tags.database)
        register(check_template_schemas, Tags.database)
        declared_in(Template.objects.schemas_with_secrets)
        members.register(Executor.objects.user_names, OperatorScope.limit_of)
        existing.register("executors", Executor.objects.names_among)
