"""The forms of the page before a bulk run: the fields of each verb, and the start."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from django import forms
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from apps.bulk.rules.settings import MAX_RATE, RATE
from apps.bulk.services.targets import TARGETS
from apps.common.admin.actions import ReasonForm
from apps.common.admin.display import plain_time, translate
from apps.common.admin.durations import DurationField
from apps.common.admin.time_inputs import SplitInstantField
from apps.common.errors import Invalid
from apps.common.verbs import Undo
from apps.dispatch.rules import task_verbs
from apps.dispatch.rules.shift import parse_shift, written_shift
from apps.jobs.rules import verbs
from apps.jobs.rules.type_settings import MAX_HOST

# Before the names of the fields of a verb: a filter may have the same name.
PREFIX = "set"
_SECONDS = re.compile(r"[+-]?[0-9]{1,9}")


def _number(label: Any, help_text: Any = "") -> forms.IntegerField:
    return forms.IntegerField(
        label=label,
        help_text=help_text,
        required=False,
        widget=UnfoldAdminIntegerFieldWidget(),
    )


class ShiftField(forms.CharField):
    """A shift as people write it, or in seconds as the address of a way back has it."""

    widget = UnfoldAdminTextInputWidget(attrs={"placeholder": "+2h", "spellcheck": "false"})

    def __init__(self, **kwargs: Any) -> None:
        text = _("+2h is later, -30m earlier; also +1d12h or +1w. A day is 24 hours.")
        super().__init__(required=False, max_length=40, help_text=text, **kwargs)

    def clean(self, value: Any) -> int | None:
        text: str = super().clean(value)
        if not text:
            return None
        try:
            by = parse_shift(f"{text}s" if _SECONDS.fullmatch(text) else text)
        except Invalid as error:
            raise forms.ValidationError(translate(error.detail)) from error
        return int(by.total_seconds())

    def prepare_value(self, value: Any) -> Any:
        is_seconds = _SECONDS.fullmatch(str(value or ""))
        return written_shift(int(value)) if is_seconds else value


class ParamsForm(forms.Form):
    """The fields of a verb. Empty ones are not given; the rules of the verb judge the others."""

    def params(self) -> dict[str, Any]:
        """The values that were filled in."""
        given = self.cleaned_data.items()
        # 0 is a number that was filled in, and equals False.
        return {name: v for name, v in given if v not in (None, "") and v is not False}


class PriorityForm(ParamsForm):
    priority = _number(_("New priority"), _("−100 to 100; higher ones run first."))


class MaxAttemptsForm(ParamsForm):
    max_attempts = _number(_("New maximum of tries"))


class TimeForm(ParamsForm):
    run_at = SplitInstantField(label=_("At"), required=False)
    spread_seconds = DurationField(
        label=_("Spread over"),
        required=False,
        help_text=_(
            "2 h spreads them over two hours from this time, or from now: the oldest come first."
        ),
    )
    shift_seconds = ShiftField(label=_("Or shift by"))


class MoveForm(ParamsForm):
    host = forms.CharField(
        label=pgettext_lazy("of a move", "Host"),
        max_length=MAX_HOST,
        required=False,
        widget=UnfoldAdminTextInputWidget(),
    )
    any_host = forms.BooleanField(label=_("Any host"), required=False, widget=UnfoldBooleanWidget())

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or self.cleaned_data
        if "host" in given and bool(given["host"]) == given["any_host"]:
            self.add_error("host", gettext("Name a host, or tick any host; not both."))
        return given

    def params(self) -> dict[str, Any]:
        if self.cleaned_data["any_host"]:
            return {"host": ""}
        return super().params()


class RetryForm(ParamsForm):
    succeeded = forms.BooleanField(
        label=_("Succeeded ones, too"), required=False, widget=UnfoldBooleanWidget()
    )
    keep_time = forms.BooleanField(
        label=_("Cancelled ones not before they were due"),
        required=False,
        widget=UnfoldBooleanWidget(),
    )


class ShiftForm(ParamsForm):
    shift_seconds = ShiftField(label=_("Shift by"))


class EndForm(ParamsForm):
    end_at = SplitInstantField(label=_("End"), required=False)


class VersionForm(ParamsForm):
    version = _number(
        _("Version"), _("Of the template that each has; those whose params do not fit it stay.")
    )


FORMS: Mapping[tuple[str, str], type[ParamsForm]] = {
    ("jobs", verbs.PRIORITY): PriorityForm,
    ("jobs", verbs.MAX_ATTEMPTS): MaxAttemptsForm,
    ("jobs", verbs.TIME): TimeForm,
    ("jobs", verbs.MOVE): MoveForm,
    ("jobs", verbs.RETRY): RetryForm,
    **{
        (kind, verb): form
        for kind in ("once-tasks", "rotate-tasks")
        for verb, form in (
            (task_verbs.PRIORITY, PriorityForm),
            (task_verbs.SHIFT, ShiftForm),
            (task_verbs.END, EndForm),
            (task_verbs.VERSION, VersionForm),
        )
    },
}


def shown_params(kind: str, verb: str, params: Mapping[str, Any]) -> Iterator[str]:
    """The parameters of a run in words, one text for each."""
    form = FORMS.get((kind, verb))
    for name, value in params.items():
        if verb == Undo.name:
            yield translate(TARGETS[kind].verbs[value].words)
        elif value is True and form is not None:
            yield str(form.base_fields[name].label)
        elif isinstance(value, datetime):
            yield plain_time(value)
        elif name == "shift_seconds":
            yield written_shift(value)
        else:
            yield str(value) or gettext("Any host")


class StartForm(ReasonForm):
    """The start of a run; `once` stays the same when the form is sent again."""

    at_most = _number(_("At most"), _("If more rows match when it starts, nothing is changed."))
    however_many = forms.BooleanField(
        label=_("However many there are"), required=False, widget=UnfoldBooleanWidget()
    )
    every = forms.BooleanField(
        label=_("Every row: no filter is set"), required=False, widget=UnfoldBooleanWidget()
    )
    rate = forms.IntegerField(
        label=_("Rows per second"),
        min_value=1,
        max_value=MAX_RATE,
        initial=RATE,
        widget=UnfoldAdminIntegerFieldWidget(),
    )
    once = forms.CharField(max_length=64, widget=forms.HiddenInput)

    def __init__(self, *args: Any, needs_every: bool, is_exact: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._needs_every = needs_every
        if not needs_every:
            del self.fields["every"]
        if is_exact:
            del self.fields["however_many"]
        for field in self.fields.values():
            field.widget.attrs.pop("autofocus", None)
        self.fields["reason"].widget.attrs["autofocus"] = True
        self.order_fields(["reason", "at_most", "however_many", "every", "rate", "once"])

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or self.cleaned_data
        most = given.get("at_most")
        if most is not None and most < 1:
            self.add_error("at_most", gettext("Write 1 or more."))
        if most is None and not given.get("however_many") and "at_most" not in self.errors:
            is_offered = "however_many" in self.fields
            text = gettext("Write a number, or tick that you mean however many there are.")
            self.add_error("at_most", text if is_offered else gettext("Write a number."))
        if self._needs_every and not given.get("every"):
            self.add_error("every", gettext("Tick it if you mean every row, or go back."))
        return given
