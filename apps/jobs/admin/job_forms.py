"""The forms of jobs: a new one by the schema of its type, an edit, a retry on a host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django import forms
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.widgets import (
    UnfoldAdminSelectWidget,
    UnfoldBooleanSwitchWidget,
)

from apps.common import clock
from apps.common.admin.actions import ReasonForm
from apps.common.admin.durations import DurationField
from apps.common.admin.json_text import JsonTextField
from apps.common.admin.service import ServiceForm
from apps.common.errors import FieldError
from apps.jobs.admin.type_choice import ContextForm, offer_types
from apps.jobs.models import AnyJob, Job
from apps.jobs.services.action_effects import edit_faults
from apps.jobs.services.living import hosts
from apps.jobs.services.submit import Submission
from apps.jobs.services.submit_check import field_errors

# What a form takes over of an earlier job, beside its context.
AGAIN = ("type", "key", "is_unique", "unique_for", "user_id", "priority", "max_attempts")
# Names of the service's fields that the form calls otherwise.
_FIELDS = {"unique": "is_unique"}


class NewJobForm(ContextForm):
    """A job to submit; `params_form` holds the fields of the chosen type's schema."""

    chooser = "type"
    # The job that the form begins with, and whether its context may be seen.
    again: ClassVar[AnyJob | None] = None
    shows_payload: ClassVar[bool] = False

    type = forms.ChoiceField(label=_("Type"))
    is_unique = forms.BooleanField(
        label=_("Unique"),
        required=False,
        widget=UnfoldBooleanSwitchWidget(),
        help_text=_("No second job with this type and key is submitted while one is open."),
    )
    unique_for = DurationField(
        label=_("Key kept for"),
        required=False,
        help_text=_("Empty: the key is free when the job ends."),
    )

    class Meta:
        model = Job
        fields = (
            *("type", "key", "is_unique", "unique_for", "user_id"),
            *("run_at", "priority", "max_attempts"),
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in AGAIN if self.again else ():
            self.initial[name] = getattr(self.again, name)
        offer_types(self, "type", self.bounds)
        for name in ("run_at", "priority", "max_attempts"):
            self.fields[name].required = False
            self.initial.setdefault(name, None)
            if not self.again:
                self.initial[name] = self.initial[name] or None
        self.fields["key"].help_text = _("Your own reference, such as order-17.")
        self.fields["run_at"].help_text = _("Empty: now.")
        self.fields["priority"].help_text = _("-100 to 100, higher goes first. Empty: the type's.")
        self.fields["max_attempts"].help_text = _("Empty: the type's.")
        is_same_type = self.again and self.chosen and self.again.type == self.chosen.name
        shown = self.again if is_same_type and self.shows_payload else None
        self.params_form = self.form_of(self.schema, None if shown is None else shown.context)

    def rule_errors(self) -> Sequence[FieldError]:
        given = self.cleaned_data
        job = Submission(
            type=given.get("type", ""),
            key=given.get("key", ""),
            user_id=given.get("user_id", ""),
            unique=given.get("is_unique", False),
            unique_for=given.get("unique_for"),
            run_at=given.get("run_at"),
            priority=given.get("priority"),
            max_attempts=given.get("max_attempts"),
        )
        # The context has a form of its own.
        return [each for each in field_errors(job, self.bounds) if not self.is_of_params(each)]

    def field_of(self, path: str) -> str | None:
        return super().field_of(_FIELDS.get(path, path))


class JobEditForm(ServiceForm):
    """The fields to change while a job waits. `context` is shown to people who may see it."""

    affinity_host = forms.ChoiceField(
        label=_("Only on host"),
        required=False,
        help_text=_("Only workers on this host run it. Empty: any host that the type allows."),
    )
    reason = ReasonForm.base_fields["reason"]

    class Meta:
        model = Job
        fields = ("run_at", "priority", "max_attempts", "affinity_host", "context")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        known = {*hosts(), self.instance.affinity_host} - {""}
        choices = [("", _("any")), *((host, host) for host in sorted(known))]
        chosen: Any = self.fields["affinity_host"]
        chosen.widget = UnfoldAdminSelectWidget(choices=choices)
        chosen.choices = choices
        self.fields["run_at"].help_text = _("A time in the past means now.")
        self.fields["priority"].help_text = _("-100 to 100, higher goes first.")
        self.fields["max_attempts"].help_text = ngettext(
            "%d try is used. The job fails at once if the maximum is not higher.",
            "%d tries are used. The job fails at once if the maximum is not higher.",
            self.instance.attempts,
        ) % (self.instance.attempts)
        if "context" in self.fields:
            self.fields["context"] = JsonTextField(
                label=_("Context"), redacts=True, stored=self.instance.context
            )

    def rule_errors(self) -> Sequence[FieldError]:
        return list(edit_faults(self.changes, clock.now()))

    @property
    def changes(self) -> dict[str, Any]:
        return {name: value for name, value in super().changes.items() if name != "reason"}


class JobRetryForm(ServiceForm):
    """Another context for a job that has ended."""

    reason = ReasonForm.base_fields["reason"]

    class Meta:
        model = Job
        fields = ("context",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["context"] = JsonTextField(
            label=_("Context"), redacts=True, stored=self.instance.context
        )
        self.fields["context"].help_text = _(
            "The job runs again with it at once, from the last checkpoint and with all tries."
        )


class HostForm(ReasonForm):
    """Asks for the host of a retry."""

    host = forms.ChoiceField(
        label=_("Host"),
        help_text=_("Hosts with registered workers. Only a worker on this host runs the job."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [(host, host) for host in hosts()]
        chosen: Any = self.fields["host"]
        chosen.widget = UnfoldAdminSelectWidget(choices=choices)
        chosen.choices = choices
