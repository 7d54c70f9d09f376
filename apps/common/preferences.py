"""The settings of each person for all pages: a time zone, which is that of the browser at the first
sign-in until another is chosen, and whether single keys do something.

The session has a copy, so that pages ask the database for none.
"""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from django.http import HttpRequest

from apps.common.models import Preference
from apps.common.zones import parse_zone, zone_names

# The field that a script adds to the form of the sign-in, and the copies in the session.
FIELD = "time_zone"
_KEPT_ZONE = "preferences_time_zone"
_KEPT_SHORTCUTS = "preferences_shortcuts"


def begin_session(*, request: HttpRequest, user: Any, **_signal: Any) -> None:
    """Copy the settings of the person who has just signed in to the session."""
    known = Preference.objects.filter(user=user).first()
    offered = request.POST.get(FIELD, "")
    if known is None and offered in zone_names():
        known, _made = Preference.objects.get_or_create(user=user, defaults={"time_zone": offered})
    if known is not None:
        _keep(request, known)


def _keep(request: HttpRequest, chosen: Preference) -> None:
    request.session[_KEPT_ZONE] = chosen.time_zone
    request.session[_KEPT_SHORTCUTS] = chosen.shortcuts


def chosen_zone(request: HttpRequest) -> ZoneInfo | None:
    """The zone of the signed-in person; None for that of the server."""
    name = request.session.get(_KEPT_ZONE, "")
    # Another version of the tz database may lack a zone that was chosen.
    return ZoneInfo(name) if name in zone_names() else None


def has_shortcuts(request: HttpRequest) -> bool:
    """Whether keys of the keyboard do something on the pages of the signed-in person."""
    return bool(request.session.get(_KEPT_SHORTCUTS, True))


def choose(request: HttpRequest, user: Any, *, time_zone: str, shortcuts: bool) -> None:
    """Keep the choices for this person; an empty zone is that of the server, Invalid one that there
    is not."""
    if time_zone:
        parse_zone(time_zone)
    chosen, _made = Preference.objects.update_or_create(
        user=user, defaults={"time_zone": time_zone, "shortcuts": shortcuts}
    )
    _keep(request, chosen)
