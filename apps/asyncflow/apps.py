from django.apps import AppConfig
from django.core.checks import Tags, register


class AsyncflowConfig(AppConfig):
    name = "apps.asyncflow"
    label = "asyncflow"
    verbose_name = "asyncflow"

    def ready(self) -> None:
        from apps.asyncflow import checks
        from apps.common import addresses

        addresses.register_programs("/asyncflow/")
        register(checks.check_loopback)
        register(checks.check_loopback_client, Tags.database)
