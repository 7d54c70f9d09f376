from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class DispatchConfig(AppConfig):
    name = "apps.dispatch"
    label = "dispatch"
    verbose_name = _("Dispatch")

    def ready(self) -> None:
        from apps.access import directory
        from apps.access.rules.clients import Binding
        from apps.common.masking.names import declared_in
        from apps.dispatch.models import Executor, OperatorScope, Template

        declared_in(Template.objects.schemas_with_secrets)
        found = directory.Directory(
            existing=Executor.objects.names_among,
            limits=lambda person: OperatorScope.objects.filter(operator_id=person).values_list(
                "executor__name"
            ),
            users=Executor.objects.user_names,
        )
        directory.register(Binding.EXECUTORS, found)
