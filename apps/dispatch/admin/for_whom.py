"""The choice above the pages that plan something: for an executor, or for jobs of a type."""

from __future__ import annotations

from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext

from apps.common.admin.html import joined, link
from apps.common.admin.pages import Panel

# The things to plan, by the URL name of their pages; another app knows what a schedule is.
_CHOICES = {
    "dispatch_oncetask": _("people"),
    "schedules_schedule": _("a job type"),
}


def for_whom(request: HttpRequest, current: str) -> list[Panel]:
    """`For: an executor, once | …`: links to the add pages of the others that this person may use;
    nothing when there is no other."""
    may = [name for name in _CHOICES if _may_add(request, name)]
    if len(may) < 2:
        return []
    links = (
        format_html("<strong>{}</strong>", _CHOICES[name])
        if name == current
        else link(reverse(f"admin:{name}_add"), _CHOICES[name])
        for name in may
    )
    words = pgettext("of a plan", "For")
    return [Panel("", format_html('<p class="for-whom">{}: {}</p>', words, joined(links, " | ")))]


def _may_add(request: HttpRequest, name: str) -> bool:
    app, _underscore, model = name.partition("_")
    user = request.user
    return bool(user.has_perm(f"{app}.add_{model}"))
