"""The form that makes an account: its name and password, its roles, whether it may sign in."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.forms import BooleanField, ModelMultipleChoiceField
from django.utils.translation import gettext_lazy as _
from unfold.forms import UserCreationForm
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldBooleanSwitchWidget

from taskplatform.roles import DESCRIPTIONS


class RolesField(ModelMultipleChoiceField):  # type: ignore[type-arg]
    """Each role with what it may do."""

    def label_from_instance(self, role: Group) -> str:
        description = DESCRIPTIONS.get(role.name)
        return f"{role.name} – {description}" if description else role.name


class NewAccountForm(UserCreationForm):  # type: ignore[misc]
    """As superusers get it; they alone hand out roles."""

    is_staff = BooleanField(
        label=_("Signs in to these pages"),
        initial=True,
        required=False,
        widget=UnfoldBooleanSwitchWidget,
    )
    groups = RolesField(
        Group.objects.order_by("pk"),
        label=_("Roles"),
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
    )

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean()
        if cleaned.get("is_staff") and "groups" in cleaned and not cleaned["groups"]:
            message = _("Choose a role; without one the account sees nothing on these pages.")
            self.add_error("groups", ValidationError(message, code="required"))
        return cleaned
