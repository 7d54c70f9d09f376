"""The page of the settings of a person, which hold for all pages they open."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.display import shown_time, translate
from apps.common.admin.pages import framed
from apps.common.admin.zone_choice import MAX_ZONE
from apps.common.errors import Invalid
from apps.common.preferences import FIELD, choose, chosen_zone, has_shortcuts
from apps.common.zones import zone_names

PREFERENCES_URL = "preferences"
SHORTCUTS = "shortcuts"


def preferences(request: HttpRequest) -> HttpResponse:
    """Show (GET) or save (POST) the settings of the signed-in person."""
    typed, problem = request.POST.get(FIELD, "").strip()[:MAX_ZONE], ""
    shortcuts = has_shortcuts(request)
    if request.method == "POST":
        shortcuts = SHORTCUTS in request.POST
        try:
            choose(request, request.user, time_zone=typed, shortcuts=shortcuts)
        except Invalid as error:
            problem = translate(error.detail)
        else:
            messages.success(request, gettext("Your settings were saved."))
            return HttpResponseRedirect(reverse(PREFERENCES_URL))
    chosen = chosen_zone(request)
    status = 400 if problem else 200
    return framed(
        request,
        "admin/preferences.html",
        status=status,
        title=_("My settings"),
        zone=typed if problem else (chosen.key if chosen else ""),
        has_shortcuts=shortcuts,
        problem=problem,
        zones=sorted(zone_names()),
        server_zone=timezone.get_default_timezone_name(),
        now=shown_time(clock.now()),
    )
