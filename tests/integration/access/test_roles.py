"""The roles of operators: viewers, operators and configurers."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, Permission

from taskplatform.capabilities import ROLES
from taskplatform.roles import make_roles

pytestmark = pytest.mark.django_db

LABELS = sorted({name.partition(".")[0] for names in ROLES.values() for name in names})


def make_all_roles() -> None:
    for label in LABELS:
        make_roles(apps.get_app_config(label))


def held_by(role: str) -> set[str]:
    held = Group.objects.get(name=role).permissions.select_related("content_type")
    return {f"{permission.content_type.app_label}.{permission.codename}" for permission in held}


@pytest.mark.parametrize("role", list(ROLES))
def test_role_holds_exactly_what_the_table_names(role: str) -> None:
    """Every name in the table exists; a misspelt one would be missing here."""
    make_all_roles()

    assert held_by(role) == ROLES[role]


def test_viewer_may_see_every_model_and_change_none() -> None:
    make_all_roles()
    models = {
        f"{label}.view_{model._meta.model_name}"
        for label in LABELS
        for model in apps.get_app_config(label).get_models()
        if "view" in model._meta.default_permissions
    }

    assert held_by("viewer") == models


def test_role_loses_what_left_the_table_and_keeps_what_it_has_on_other_apps() -> None:
    make_all_roles()
    extra = Permission.objects.get(codename="change_oncetask")
    foreign = Permission.objects.get(codename="view_user", content_type__app_label="auth")
    Group.objects.get(name="viewer").permissions.add(extra, foreign)

    make_all_roles()

    assert held_by("viewer") == ROLES["viewer"] | {"auth.view_user"}


def test_permissions_not_yet_made_are_made_for_the_role() -> None:
    """The receiver may run before Django's own that makes permissions."""
    Group.objects.all().delete()
    Permission.objects.filter(content_type__app_label="access").delete()

    make_roles(apps.get_app_config("access"))

    assert held_by("configurer") == {n for n in ROLES["configurer"] if n.startswith("access.")}
