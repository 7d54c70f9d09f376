from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class FlowsConfig(AppConfig):
    name = "apps.flows"
    label = "flows"
    verbose_name = _("Flows")

    def ready(self) -> None:
        from apps.common import on_demand, tidy
        from apps.dispatch.services import parts as of_dispatch
        from apps.flows import handlers, sweeps  # noqa: F401
        from apps.flows.services import ends, retention, uses, wholes
        from apps.jobs.services import parts as of_jobs

        for each in (of_jobs, of_dispatch):
            each.parts.on_end(sweeps.hear)
            each.parts.name_by(wholes.named)
        of_jobs.parts.keep_while(ends.needed)
        of_jobs.parts.keep_among(ends.has_needed_among)
        of_jobs.parts.find_by(wholes.jobs_of)
        of_dispatch.parts.find_by(wholes.task_of)
        uses.register()
        on_demand.register(sweeps.LOOK, ends.is_due)
        tidy.register("flow runs", retention.forget_runs)
