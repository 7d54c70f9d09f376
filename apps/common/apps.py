from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class CommonConfig(AppConfig):
    name = "apps.common"
    label = "common"
    verbose_name = _("Platform")

    def ready(self) -> None:
        from django.contrib.auth.signals import user_logged_in
        from django.core.checks import Tags, register

        from apps.common import checks, connections, lookups, sent_forms, tidy
        from apps.common.preferences import begin_session

        connections.register()
        register(checks.check_packets, Tags.database)
        lookups.register()
        tidy.register("sent forms", sent_forms.forget)
        user_logged_in.connect(begin_session, dispatch_uid="common.preferences")
