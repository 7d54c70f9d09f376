"""The forms of what is done to one step of a run."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget

from apps.common.admin.actions import ReasonForm
from apps.common.admin.json_text import JsonTextField
from apps.common.readers import read_number
from apps.flows.models import FlowRun, FlowStep
from apps.flows.rules import joins, shapes


class StepForm(ReasonForm):
    """Which step, and the result in place of its own, as JSON; the address may name the step."""

    states: ClassVar[Collection[str]] = (joins.BLOCKED, joins.ACTIVE, joins.FAILED)
    kinds: ClassVar[Collection[str]] = shapes.KINDS

    step = forms.ChoiceField(label=_("Step"), widget=UnfoldAdminSelectWidget())
    result = JsonTextField(
        label=_("Result"),
        required=False,
        is_object=False,
        redacts=True,
        rows=3,
        help_text=_(
            'As JSON, such as {"approved": true}. Steps after it get it in place of its own.'
        ),
    )

    def __init__(self, *args: Any, request: HttpRequest | None = None, **kwargs: Any) -> None:
        super().__init__(*args, request=request, **kwargs)
        names = [] if request is None else self._names(request)
        field: Any = self.fields["step"]
        field.choices = [(name, name) for name in names]
        if request is not None and request.GET.get("step") in names:
            field.initial = request.GET["step"]
        self.order_fields(["step", "result", "reason"])

    def _names(self, request: HttpRequest) -> list[str]:
        """The steps of the run to which this can be done, in the order of the definition."""
        given = request.POST if request.method == "POST" else request.GET
        number = read_number(given.get("ids", ""))
        run = FlowRun.objects.visible_to(request.user).filter(pk=number or 0).first()
        if run is None:
            return []
        rows = FlowStep.objects.filter(run=run.pk, state__in=self.states, kind__in=self.kinds)
        open_ones = {*rows.values_list("name", flat=True)}
        return [said["name"] for said in run.definition["steps"] if said["name"] in open_ones]


class FinishForm(StepForm):
    states = (joins.ACTIVE,)
    kinds = (shapes.WAIT,)
