"""The select of a job type in forms of people."""

from __future__ import annotations

from typing import Any

from django.forms import BaseForm
from django.utils.translation import gettext
from unfold.widgets import UnfoldAdminSelectWidget

from apps.common.admin.display import shown_text
from apps.common.admin.schema_form import REDRAW
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
