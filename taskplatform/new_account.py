"""The forms that make an account: name, mail, password and time zone; for superusers also roles,
limits and whether it may sign in."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.forms import BooleanField, ChoiceField, ModelMultipleChoiceField
from django.urls import reverse_lazy
from django.utils.crypto import get_random_string
from django.utils.translation import gettext_lazy as _
from unfold.forms import UserCreationForm
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldBooleanSwitchWidget

from apps.common.admin.key_choice import KeyChoicesField
from apps.common.admin.zone_choice import ZoneField
from apps.common.models import Preference
from apps.dispatch.models import Executor, OperatorScope
from apps.jobs.models import JobScope, JobType
from apps.jobs.services.types import for_people
from taskplatform.roles import DESCRIPTIONS

GENERATED, TYPED, NONE = "generate", "true", "false"
# More than 110 random bits. Without look-alikes: people read it out and type it.
_CHARACTERS = "abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
_LENGTH = 20
MAX_EXECUTORS = 100


class RolesField(ModelMultipleChoiceField):  # type: ignore[type-arg]
    """Each role with what it may do."""

    def label_from_instance(self, role: Group) -> str:
        description = DESCRIPTIONS.get(role.name)
        return f"{role} – {description}" if description else str(role)


class NewAccountForm(UserCreationForm):  # type: ignore[misc]
    """The form of a new account; `new_password` is a generated password, to be shown once."""

    # Django's name and two of its values; with a third choice.
    usable_password = ChoiceField(
        label=_("Password"),
        choices={
            GENERATED: _("Generate a strong one and show it once"),
            TYPED: _("Type one"),
            NONE: _("None: no sign-in until one is set"),
        },
        initial=GENERATED,
        required=False,
    )
    time_zone = ZoneField(
        label=_("Time zone"),
        required=False,
        help_text=_(
            "Times on the pages of this person are of it. Empty: the zone of the browser at the "
            "first sign-in, or that of the server."
        ),
    )
    new_password = ""

    def finish(self, person: User) -> None:
        """Save the values that are no columns of the account."""
        if zone := self.cleaned_data["time_zone"]:
            Preference.objects.create(user=person, time_zone=zone)

    def validate_passwords(self) -> None:
        if self.cleaned_data.get("usable_password") != GENERATED:
            super().validate_passwords()
            return
        typed = self.cleaned_data.get("password1") or self.cleaned_data.get("password2")
        self.new_password = get_random_string(_LENGTH, _CHARACTERS)
        self.cleaned_data |= {"password1": self.new_password, "password2": self.new_password}
        super().validate_passwords()
        if typed:
            message = _("You typed a password; choose “Type one”, or leave both boxes empty.")
            self.add_error("usable_password", ValidationError(message, code="typed"))


class NewMemberForm(NewAccountForm):
    """The form of a new account for superusers, who alone hand out roles. The first name on a side
    limits the person on that side."""

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
    executors = KeyChoicesField(
        rows=Executor.objects.all(),
        suggestions=reverse_lazy("admin:dispatch_executor_names"),
        limit=MAX_EXECUTORS,
        label=_("Sees these people and groups only"),
        required=False,
        help_text=_(
            "Names of people (uid_…) and groups (gid_…), divided by blanks; a group stands for its "
            "members. Empty: no limit."
        ),
    )
    job_types = ModelMultipleChoiceField(
        JobType.objects.none(),
        to_field_name="name",
        label=_("Sees jobs of these types only"),
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text=_("None: no limit."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        types: Any = self.fields["job_types"]
        types.queryset = for_people(None)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean()
        if cleaned.get("is_staff") and "groups" in cleaned and not cleaned["groups"]:
            message = _("Choose a role; without one the account sees nothing on these pages.")
            self.add_error("groups", ValidationError(message, code="required"))
        return cleaned

    def finish(self, person: User) -> None:
        super().finish(person)
        for executor in self.cleaned_data["executors"]:
            OperatorScope.objects.create(operator=person, executor=executor)
        for job_type in self.cleaned_data["job_types"]:
            JobScope.objects.create(operator=person, type=job_type.name)
