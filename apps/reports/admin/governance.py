"""The page of governance: all watches, and what to do about what is not well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.actions import ReasonForm, actor_of
from apps.common.admin.display import duration_of, label, translate
from apps.common.admin.durations import written
from apps.common.admin.html import table
from apps.common.admin.pages import framed
from apps.common.errors import PlatformError
from apps.common.leases import SweepRun
from apps.jobs.admin.labels import relative
from apps.journal.admin import words
from apps.reports.admin.findings import shown_findings
from apps.reports.permissions import may_govern
from apps.reports.services import fact_sheet
from apps.reports.services.fact_sheet import FactSheet
from apps.reports.watches import WATCHES
from apps.reports.watches.base import CONFIGURES, WatchResult, look, visible_findings
from apps.reports.watches.tables import FIXED


def governance(request: HttpRequest) -> HttpResponseBase:
    """The page of governance: the watches with findings first, then those that are in order."""
    _require_sight(request)
    sheet = fact_sheet.read()
    may = request.user.has_perm
    looked = (visible_findings(look(watch, sheet), may) for watch in WATCHES)
    found = [each for each in looked if each is not None]
    lines = [_line(each, may) for each in found]
    return framed(
        request,
        "admin/governance.html",
        title=_("Checks"),
        count=sum(len(each.findings) for each in found),
        lines=[line for line in lines if line["state"]],
        in_order=[line for line in lines if not line["state"]],
        in_order_label=label(gettext("in order"), "success"),
        sweeps=_sweeps(sheet) if may("common.view_sweeplease") else "",
    )


def fix(request: HttpRequest, number: str) -> HttpResponseBase:
    """Say what the fix of a finding would do (GET), or do it (POST with a reason)."""
    _require_sight(request)
    mends = next((each.fix for each in WATCHES if each.key == number), None)
    if mends is None:
        raise Http404(f"no fix {number!r}")
    if not request.user.has_perm(CONFIGURES):
        raise PermissionDenied
    subject = request.POST.get("subject", request.GET.get("subject", ""))
    form = ReasonForm(*((request.POST,) if request.method == "POST" else ()), request=request)
    back = reverse("governance")
    try:
        foreseen = mends.foresee(subject)
        if form.is_bound and form.is_valid():
            done = mends.act(subject, actor_of(request), form.cleaned_data["reason"])
            messages.success(request, translate(done))
            return HttpResponseRedirect(back)
    except PlatformError as error:
        messages.error(request, translate(error.detail))
        return HttpResponseRedirect(back)
    return framed(
        request,
        "admin/governance_fix.html",
        title=translate(mends.label),
        subject=subject,
        foreseen=translate(foreseen),
        form=form,
        back=back,
    )


def _require_sight(request: HttpRequest) -> None:
    user: User | AnonymousUser = request.user
    if not may_govern(user):
        raise PermissionDenied


def _line(found: WatchResult, may: Callable[[str], bool]) -> dict[str, Any]:
    return {
        "number": found.watch.number,
        "title": translate(found.watch.title),
        "state": _state(found),
        "unknown": translate(found.unknown) if found.unknown else "",
        "findings": shown_findings(found, may),
    }


def _sweeps(sheet: FactSheet) -> SafeString:
    """The last round of each sweep."""
    heads = [_("Sweep"), _("Every"), _("Began"), _("Took")]
    return table(heads, (_sweep(each, sheet) for each in sheet.sweeps), look="sweeps stacked-table")


def _sweep(each: SweepRun, sheet: FactSheet) -> tuple[object, ...]:
    began = "–" if each.started_at is None else relative(each.started_at, sheet.now)
    if sheet.is_overdue(each):
        began = format_html("{} {}", began, label(gettext("overdue"), "warning"))
    took = "–" if each.duration_ms is None else duration_of(each.duration_ms)
    return each.name, written(sheet.periods[each.name]), began, took


def _state(found: WatchResult) -> SafeString | str:
    """How many findings there are; "" when all is in order."""
    if found.unknown:
        return label(gettext("not known"))
    count = len(found.findings)
    if not count:
        return ""
    return label(ngettext("%d finding", "%d findings", count) % count, "warning")


words.register(
    events={
        FIXED: words.Event(
            _("Finding fixed"), "build", "info", said=_("fixed a finding of check {detector}")
        )
    },
    names={"detector": _("detector"), "finding": _("finding")},
)
