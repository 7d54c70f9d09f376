from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from axes.apps import AppConfig as AxesConfig
from django.apps import AppConfig, apps
from django.contrib.admin import autodiscover
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.contrib.staticfiles.apps import StaticFilesConfig
from django.core.checks import CheckMessage, Tags, register
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class TaskPlatformConfig(AppConfig):
    """The project as an app, without models of its own."""

    name = "taskplatform"
    verbose_name = _("Task platform")

    def ready(self) -> None:
        from apps.reports.services import fact_sheet

        # celery: the application whose the tasks of all apps are.
        from taskplatform import beat, celery, collation, forgetting, upgrades  # noqa: F401
        from taskplatform.demo import handlers  # noqa: F401
        from taskplatform.roles import make_roles

        # The name in the menu. A class of its own would hide Django's users from the type checker.
        apps.get_app_config("auth").verbose_name = _("Access")
        fact_sheet.use(beat.periods)
        forgetting.connect()
        register(upgrades.check_migrations, "upgrades", deploy=True)
        # Once: the signal comes for each app with models.
        common = apps.get_app_config("common")
        post_migrate.connect(collation.hold, sender=common, dispatch_uid="taskplatform.collation")
        post_migrate.connect(make_roles, dispatch_uid="taskplatform.roles")


class PlatformAdminConfig(SimpleAdminConfig):
    """Django's admin with the platform's site as its default.

    `taskplatform.urls` loads its pages: drains, sweeps and most commands have none, and would
    start a third slower and hold 20 MB more for them.
    """

    default_site = "taskplatform.site.PlatformAdminSite"

    def ready(self) -> None:
        register(check_dependencies, Tags.admin)
        register(_check_pages, Tags.admin)


class SignInConfig(AxesConfig):  # type: ignore[misc]
    """django-axes under a name that people understand."""

    verbose_name = _("Sign-in protection")

    def ready(self) -> None:
        super().ready()
        from taskplatform import people

        people.connect()


class PlatformStaticFilesConfig(StaticFilesConfig):
    """Django's static files without those of pages that the platform does not serve."""

    ignore_patterns = [*StaticFilesConfig.ignore_patterns, "redoc", "rest_framework"]


def _check_pages(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    """Django's check of all pages, which it finds loaded in other projects."""
    autodiscover()
    return check_admin_app(app_configs, **options)
