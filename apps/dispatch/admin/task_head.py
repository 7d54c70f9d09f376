"""The line at the top of the page of a task: how its dispatches went."""

from __future__ import annotations

from collections import Counter

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext

from apps.common.admin.html import joined, link, list_url
from apps.dispatch.models import Dispatch, Task

# Older dispatches are not counted, so that the page of a rotation of years opens at once.
MAX_COUNTED = 1_000


def ends_of(task: Task) -> SafeString:
    """`In hand 1 · Succeeded 3 · Failed 1`, each with a link to those dispatches."""
    of_task = Dispatch.objects.filter(source=task.source, task=task.pk).order_by("-pk")
    states = list(of_task.values_list("state", flat=True)[: MAX_COUNTED + 1])
    counts = Counter(states[:MAX_COUNTED])
    if not counts:
        return SafeString()
    whose = {"source": task.source, "task": task.pk}
    links = (
        link(
            list_url(Dispatch, **whose, state=state),
            f"{capfirst(str(state.label))} {counts[state]:,}",
        )
        for state in Dispatch.State
        if counts[state]
    )
    shown = joined(links, " · ")
    if len(states) <= MAX_COUNTED:
        return shown
    among = gettext("among the newest %s dispatches") % f"{MAX_COUNTED:,}"
    return format_html('{} <span class="faint">{}</span>', shown, among)
