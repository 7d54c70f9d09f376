"""The three roles of operators, as Django groups that every migrate updates.

viewer: reads · operator: also sees params, contexts and results, with their secrets masked, plans
tasks, submits jobs and intervenes in running ones · configurer: also manages templates, job types
and API keys, and may override what workers report. Only superusers, and accounts they allow to,
limit operators.
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
from taskplatform.capabilities import CONFIGURER, OPERATOR, ROLES, VIEWER

TITLES: dict[str, str | Promise] = {
    VIEWER: _("viewer"),
    OPERATOR: _("operator"),
    CONFIGURER: _("configurer"),
}
DESCRIPTIONS: dict[str, str | Promise] = {
    VIEWER: _("reads all but params, contexts and results"),
    OPERATOR: _("also sees these, plans tasks, submits jobs and steps in"),
    CONFIGURER: _("also manages templates, job types and keys"),
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


def _codenames(names: frozenset[str], label: str) -> list[str]:
    return [name.partition(".")[2] for name in names if name.startswith(f"{label}.")]
