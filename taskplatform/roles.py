"""The three roles of operators, as Django groups that every migrate updates.

viewer: reads · operator: also plans tasks, submits jobs and intervenes in running ones ·
configurer: also manages templates, job types and API keys, sees params, contexts and results, and
may override what workers report. Only superusers, and accounts they allow to, limit operators.
"""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.apps import apps as installed_apps
from django.apps.registry import Apps
from django.contrib.auth.management import create_permissions
from django.db import DEFAULT_DB_ALIAS
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.common.acting import acting

_VIEWER = [
    "common.view_nodelease",
    "common.view_sweeplease",
    "journal.view_journalentry",
    "journal.view_sink",
    "journal.view_sinkreject",
    "access.view_apiclient",
    "access.view_limited",
    "alerts.view_alert",
    "alerts.view_alertrule",
    "alerts.view_channel",
    "alerts.view_delivery",
    "alerts.view_reportplan",
    "dispatch.view_executor",
    "dispatch.view_membership",
    "dispatch.view_operatorscope",
    "dispatch.view_template",
    "dispatch.view_oncetask",
    "dispatch.view_rotatetask",
    "dispatch.view_stock",
    "dispatch.view_dispatch",
    "jobs.view_job",
    "jobs.view_jobscope",
    "jobs.view_jobtype",
    "jobs.view_typestate",
    "jobs.view_uniquelock",
    "jobs.view_worker",
    "schedules.view_schedule",
    "schedules.view_schedulerun",
    "bulk.view_bulkrun",
    "reports.view_rollup",
    "reports.view_rollupbucket",
    "reports.view_errorgroup",
]
_OPERATOR = [
    *_VIEWER,
    "common.share_savedview",
    "alerts.snooze_alert",
    "alerts.add_reportplan",
    "alerts.change_reportplan",
    "alerts.delete_reportplan",
    "dispatch.add_executor",
    "dispatch.change_executor",
    "dispatch.add_membership",
    "dispatch.change_membership",
    "dispatch.delete_membership",
    "dispatch.add_oncetask",
    "dispatch.change_oncetask",
    "dispatch.delete_oncetask",
    "dispatch.add_rotatetask",
    "dispatch.change_rotatetask",
    "dispatch.delete_rotatetask",
    "dispatch.operate_dispatch",
    "jobs.add_job",
    "jobs.operate_job",
    "jobs.operate_jobtype",
    "schedules.add_schedule",
    "schedules.change_schedule",
    "schedules.delete_schedule",
]
_CONFIGURER = [
    *_OPERATOR,
    "access.add_apiclient",
    "access.change_apiclient",
    "alerts.add_alertrule",
    "alerts.change_alertrule",
    "alerts.delete_alertrule",
    "alerts.add_channel",
    "alerts.change_channel",
    "alerts.delete_channel",
    "dispatch.delete_executor",
    "dispatch.add_template",
    "dispatch.change_template",
    "dispatch.delete_template",
    "dispatch.add_operatorscope",
    "dispatch.change_operatorscope",
    "dispatch.delete_operatorscope",
    "dispatch.view_payload",
    "jobs.add_jobscope",
    "jobs.change_jobscope",
    "jobs.delete_jobscope",
    "jobs.add_jobtype",
    "jobs.change_jobtype",
    "jobs.delete_jobtype",
    "jobs.override_job",
    "jobs.view_payload",
    "schedules.view_payload",
    "journal.change_sink",
    "journal.view_payload",
]
ROLES: dict[str, list[str]] = {
    "viewer": _VIEWER,
    "operator": _OPERATOR,
    "configurer": _CONFIGURER,
}
TITLES: dict[str, str | Promise] = {
    "viewer": _("viewer"),
    "operator": _("operator"),
    "configurer": _("configurer"),
}
DESCRIPTIONS: dict[str, str | Promise] = {
    "viewer": _("reads all but params, contexts and results"),
    "operator": _("also plans tasks, submits jobs and steps in"),
    "configurer": _("also manages templates, job types and keys, and reads everything"),
}


def title_of(name: str) -> str:
    """The name of a role; of one that comes with the platform in the language of the page."""
    return str(TITLES.get(name, name))


def make_roles(
    app_config: AppConfig,
    using: str = DEFAULT_DB_ALIAS,
    apps: Apps = installed_apps,
    **_signal: Any,
) -> None:
    """Give each role exactly the permissions on this app that the table lists.

    Receiver of post_migrate. Permissions on other apps stay, so a role may be extended with them.
    For another selection on these apps, create another group.
    """
    label = app_config.label
    wanted = {role: _codenames(names, label) for role, names in ROLES.items()}
    if not any(wanted.values()):
        return
    # Django creates them on the same signal, but perhaps after this receiver.
    create_permissions(app_config, verbosity=0, using=using, apps=apps)
    try:
        group_model = apps.get_model("auth", "Group")
        permission_model = apps.get_model("auth", "Permission")
    except LookupError:
        # Migrated back to before there were groups.
        return
    with acting(""):
        _grant(wanted, label, group_model, permission_model, using)


def _grant(
    wanted: dict[str, list[str]], label: str, group_model: Any, permission_model: Any, using: str
) -> None:
    of_this_app = permission_model.objects.using(using).filter(content_type__app_label=label)
    for role, codenames in wanted.items():
        group, _ = group_model.objects.using(using).get_or_create(name=role)
        held = group.permissions.filter(content_type__app_label=label)
        group.permissions.remove(*held.exclude(codename__in=codenames))
        group.permissions.add(*of_this_app.filter(codename__in=codenames))


def _codenames(names: list[str], label: str) -> list[str]:
    return [name.partition(".")[2] for name in names if name.startswith(f"{label}.")]
