"""The select of a job type in forms of people, and the context that its schema asks for."""

from __future__ import annotations

from typing import Any, ClassVar

from django.forms import BaseForm
from django.utils.functional import cached_property
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget

from apps.common.admin.display import shown_text
from apps.common.admin.schema_form import REDRAW, ParamsForm
from apps.jobs.models import Bounds, JobType
from apps.jobs.services.types import open_types


def offer_types(form: BaseForm, name: str, bounds: Bounds, *, kept: str = "") -> None:
    """Let the field offer the types within the bounds, and the one that the row has; nothing is
    chosen yet where there are several."""
    choices = [
        (type_.name, f"{type_.name} · {shown_text(type_.shown_title, limit=80)}")
        if type_.title
        else (type_.name, type_.name)
        for type_ in open_types(bounds.types).only("name", "title")
    ]
    if kept and kept not in dict(choices):
        is_there = JobType.objects.filter(name=kept).exists()
        gone = gettext("%s (there is no such type any more)") % kept
        choices.append((kept, kept if is_there else gone))
    if len(choices) != 1:
        choices.insert(0, ("", gettext("choose…")))
    chosen: Any = form.fields[name]
    chosen.widget = UnfoldAdminSelectWidget(choices=choices, attrs=REDRAW)
    chosen.choices = choices
    if form.initial.get(name) not in dict(choices):
        form.initial[name] = choices[0][0]


class ContextForm(ParamsForm):
    """The form of a job to come; `bounds` hold the types that the person may choose."""

    holder = "context"
    titles = _("Context"), _("Context as JSON")
    errors_below = _("The context has errors; see below.")
    misfit = _("The stored context does not fit this type; ask somebody who sees it.")
    bounds: ClassVar[Bounds] = Bounds()

    @cached_property
    def chosen(self) -> JobType | None:
        """The type that is chosen in the form at this moment."""
        types = open_types(self.bounds.types)
        return types.filter(name=str(self[self.chooser].value() or "")[:64]).first()

    @property
    def schema(self) -> Any:
        """The schema of its contexts; None for any."""
        return (self.chosen.params_schema if self.chosen else None) or None
