"""The form of a task, whose params part is made from the chosen template."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

from django import forms
from django.db.models import Q, QuerySet
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget

from apps.common.admin import ServiceForm
from apps.common.admin.display import duration_of
from apps.common.admin.key_choice import KeyChoiceField
from apps.common.admin.schema_form import REDRAW, SchemaForm, covered
from apps.common.errors import FieldError, PlatformError
from apps.common.json.schema import check_params
from apps.common.json_rules import canonical
from apps.dispatch.admin.filters import NAMES_URL
from apps.dispatch.conf import conf
from apps.dispatch.models import Executor, Task, Template
from apps.dispatch.services.validation import validate


def _lookback() -> str:
    """`7 days`."""
    length = conf.DISPATCH_LOOKBACK
    if length % timedelta(days=1):
        return duration_of(length // timedelta(milliseconds=1))
    return ngettext("%d day", "%d days", length.days) % length.days


class TaskForm(ServiceForm):
    """The fields of both kinds of task, and beside them `params_form` for what the template asks.

    `executors` are those that the operator may address. `shows_params` is off for people who may
    not see params: a stored task then keeps its own.
    """

    executors: ClassVar[QuerySet[Executor]] = Executor.objects.all()
    shows_params: ClassVar[bool] = True
    # The comparison that was asked for in place of a save.
    what_if: dict[str, Any] | None = None

    class Meta:
        fields: tuple[str, ...] = (
            "title",
            "start_at",
            "end_at",
            "mode",
            "dispatch_times",
            "priority",
            "lease_seconds",
            "on_failure",
            "on_expiry",
            "max_rounds",
            "status",
        )

    executor = KeyChoiceField(
        rows=Executor.objects.all(),
        suggestions=NAMES_URL,
        label=_("Executor"),
        help_text=_("The name of a user (uid_…) or group (gid_…)."),
    )
    template = forms.ModelChoiceField(
        queryset=Template.objects.none(),
        required=False,
        label=_("Template"),
        empty_label=_("none: any JSON object"),
        widget=UnfoldAdminSelectWidget(attrs=REDRAW),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_new = self.instance.pk is None
        self.initial.setdefault("executor", self.instance.executor_id)
        executor: Any = self.fields.get("executor")
        if executor is not None:
            executor.rows = self.executors
        self._limit_choices()
        self.params_form = self._made_params_form()

    def _limit_choices(self) -> None:
        template: Any = self.fields.get("template")
        if template is not None:
            choices = Q(status=Template.Status.ACTIVE, pk__in=Template.objects.newest())
            template.queryset = Template.objects.filter(choices | Q(pk=self.instance.template_id))
        if "end_at" in self.fields:
            text = gettext("What is due can be had for at most %s, also without an end.")
            self.fields["end_at"].help_text = text % _lookback()
        if "start_at" in self.fields and self.is_new:
            self.fields["start_at"].required = False
            self.fields["start_at"].help_text = _("Empty = now.")
        status: Any = self.fields.get("status")
        if status is not None:
            status.choices = [c for c in status.choices if c[0] != Task.Status.DELETED]

    def _made_params_form(self) -> SchemaForm | None:
        if "title" not in self.fields or not (self.is_new or self.shows_params):
            return None
        template = self.chosen_template()
        schema = None if template is None else template.schema
        stored = None if self.is_new else self.instance.params
        if stored is not None and template is not None and template.pk != self.instance.template_id:
            stored = covered(stored, schema)
        return SchemaForm(
            schema,
            stored=stored,
            check=lambda params: check_params(schema, params),
            data=self.data if self.is_bound else None,
            is_draft=self.is_draft,
        )

    def chosen_template(self) -> Template | None:
        """The template that is chosen in the form at this moment."""
        field: Any = self.fields["template"]
        chosen = self["template"].value()
        try:
            template: Template | None = field.to_python(chosen)
        except forms.ValidationError:
            return None
        return template

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.params_form is not None and not self.params_form.is_valid():
            self.add_error(None, gettext("The params are not right yet; see below."))
        return cleaned

    def rule_errors(self) -> Sequence[FieldError]:
        if "title" not in self.fields:
            return ()
        # The form of the params validates them.
        fields = {**self.given(), "template": None, "params": {}}
        model: Any = type(self.instance)
        try:
            validate(model, fields, current=None if self.is_new else self.instance)
        except PlatformError as refusal:
            return refusal.errors
        return ()

    def given(self) -> dict[str, Any]:
        """The plain fields of the task as far as the form could read them."""
        known, editable = self.cleaned_data, type(self.instance).editable
        return {name: known[name] for name in known if name in editable and name != "executor"}

    def show(self, errors: Sequence[FieldError]) -> None:
        about_params = [error for error in errors if error.field.startswith("params")]
        others = [error for error in errors if error not in about_params]
        if about_params and self.params_form is None:
            # The messages are about values that this person may not see.
            text = gettext(
                "The stored params do not fit this template; ask somebody who sees them."
            )
            others.append(FieldError("template", "invalid", text))
        elif about_params and self.params_form is not None:
            # Errors can only be added to a form that has been validated.
            self.params_form.full_clean()
            self.params_form.show(about_params)
        super().show(others)

    @property
    def changes(self) -> dict[str, Any]:
        changes = super().changes
        if self.params_form is not None and (
            self.is_new or canonical(self.params_form.params) != canonical(self.instance.params)
        ):
            changes["params"] = self.params_form.params
        return changes
