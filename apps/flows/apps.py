from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class FlowsConfig(AppConfig):
    name = "apps.flows"
    label = "flows"
    verbose_name = _("Flows")

    def ready(self) -> None:
        from apps.common import tidy
        from apps.dispatch.services import parts as of_dispatch
        from apps.flows import handlers, sweeps  # noqa: F401
        from apps.flows.services import ends, retention
        from apps.jobs.services import parts as of_jobs

        for each in (of_jobs, of_dispatch):
            each.parts.on_end(sweeps.hear)
        of_jobs.parts.keep_while(ends.needed)
        of_jobs.parts.lie_in(ends.jobs_of)
        tidy.register("flow runs", retention.forget_runs)
