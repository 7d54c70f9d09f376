"""How the states of dispatches are shown."""

from __future__ import annotations

from datetime import timedelta

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from apps.common import clock
from apps.common.admin.display import choice_label, duration_of, label, short_time
from apps.dispatch.models import Dispatch

STATE_COLOURS = {
    Dispatch.State.OPEN: "info",
    Dispatch.State.SUCCEEDED: "success",
    Dispatch.State.FAILED: "danger",
    Dispatch.State.EXPIRED: "warning",
}


def is_overdue(dispatch: Dispatch) -> bool:
    """Whether it is open past its deadline."""
    return dispatch.is_open and dispatch.deadline_at < clock.now()


def state_in_list(dispatch: Dispatch) -> SafeString:
    """The state of a dispatch in its colour; of an open one past its deadline that it is."""
    if is_overdue(dispatch):
        return label(gettext("Overdue"), "warning")
    return choice_label(Dispatch.State, dispatch.state, STATE_COLOURS)


def time_left(dispatch: Dispatch) -> SafeString:
    """Until when an open dispatch is to be done, or how late it is."""
    if is_overdue(dispatch):
        late = (clock.now() - dispatch.deadline_at) // timedelta(milliseconds=1)
        return format_html('<span class="late">{}</span>', gettext("%s late") % duration_of(late))
    return format_html(gettext("until {}"), short_time(dispatch.deadline_at))
