"""The time zone of each person: that of the browser at the first sign-in, until another is chosen.

The session has a copy, so that pages ask the database for none.
"""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from django.http import HttpRequest

from apps.common.models import Preference
from apps.common.zones import parse_zone, zone_names

# The field that a script adds to the form of the sign-in, and the copy in the session.
FIELD = "time_zone"
_KEPT = "preferences_time_zone"


def begin_session(*, request: HttpRequest, user: Any, **_signal: Any) -> None:
    """Note the zone of who has just signed in."""
    known = Preference.objects.filter(user=user).first()
    offered = request.POST.get(FIELD, "")
    if known is None and offered in zone_names():
        known, _made = Preference.objects.get_or_create(user=user, defaults={"time_zone": offered})
    if known is not None:
        request.session[_KEPT] = known.time_zone


def chosen_zone(request: HttpRequest) -> ZoneInfo | None:
    """The zone of who is signed in; None for that of the server."""
    name = request.session.get(_KEPT, "")
    # Another version of the tz database may lack a zone that was chosen.
    return ZoneInfo(name) if name in zone_names() else None


def choose_zone(request: HttpRequest, user: Any, name: str) -> None:
    """Keep the zone for this person, the one of the server when empty; Invalid if there is none."""
    if name:
        parse_zone(name)
    Preference.objects.update_or_create(user=user, defaults={"time_zone": name})
    request.session[_KEPT] = name
