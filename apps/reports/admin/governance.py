"""The page of governance: what goes wrong slowly, each with what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.actions import ReasonForm, actor_of
from apps.common.admin.display import label, shown_text, translate
from apps.common.admin.html import list_url, page_url
from apps.common.errors import PlatformError
from apps.jobs.admin.job_groups import GROUP_URL
from apps.jobs.models import Job, JobType
from apps.journal.admin import words
from apps.journal.models import Sink, SinkReject
from apps.reports.permissions import may_govern
from apps.reports.rules.tally import error_of
from apps.reports.services.findings import (
    DETECTORS,
    FIXED,
    Detector,
    Finding,
    Looked,
    look_all,
)

MAX_TEXT = 600


def governance(request: HttpRequest) -> HttpResponseBase:
    """What the detectors have found, and then those that have found nothing."""
    _require_sight(request)
    found = look_all(clock.now())
    lines = [_line(request, each) for each in found]
    context = {
        **admin.site.each_context(request),
        "title": _("Governance"),
        "subtitle": None,
        "count": sum(len(each.findings) for each in found),
        "lines": [line for line in lines if line["state"]],
        "in_order": [line for line in lines if not line["state"]],
        "in_order_label": label(gettext("in order"), "success"),
    }
    return TemplateResponse(request, "admin/governance.html", context)


def fix(request: HttpRequest, number: str) -> HttpResponseBase:
    """What the fix of a finding would do (GET), and doing it (POST with a reason)."""
    _require_sight(request)
    detector = next((each for each in DETECTORS if each.number == number), None)
    if detector is None or detector.fix is None:
        raise Http404(f"no fix {number!r}")
    if not request.user.has_perm(detector.fix.permission):
        raise PermissionDenied
    subject = request.POST.get("subject", request.GET.get("subject", ""))
    form = ReasonForm(*((request.POST,) if request.method == "POST" else ()), request=request)
    back = reverse("governance")
    try:
        foreseen = detector.fix.foresee(subject)
        if form.is_bound and form.is_valid():
            done = detector.fix.act(subject, actor_of(request), form.cleaned_data["reason"])
            messages.success(request, translate(done))
            return HttpResponseRedirect(back)
    except PlatformError as error:
        messages.error(request, translate(error.detail))
        return HttpResponseRedirect(back)
    context = {
        **admin.site.each_context(request),
        "title": translate(detector.fix.label),
        "subtitle": None,
        "subject": subject,
        "foreseen": translate(foreseen),
        "form": form,
        "back": back,
    }
    return TemplateResponse(request, "admin/governance_fix.html", context)


def _require_sight(request: HttpRequest) -> None:
    user: User | AnonymousUser = request.user
    if not may_govern(user):
        raise PermissionDenied


def _line(request: HttpRequest, found: Looked) -> dict[str, Any]:
    detector = found.detector
    may_fix = detector.fix is not None and request.user.has_perm(detector.fix.permission)
    return {
        "number": detector.number,
        "title": translate(detector.title),
        "state": _state(found),
        "unknown": translate(found.unknown) if found.unknown else "",
        "findings": [
            {
                "text": shown_text(translate(each.text), limit=MAX_TEXT),
                "ways": [*_links(request, detector, each), *_fix(detector, each, may_fix)],
            }
            for each in found.findings
        ],
    }


def _state(found: Looked) -> SafeString | str:
    """How many findings there are; "" when all is in order."""
    if found.unknown:
        return label(gettext("not known"))
    count = len(found.findings)
    if not count:
        return ""
    return label(ngettext("%d finding", "%d findings", count) % count, "warning")


def _fix(detector: Detector, finding: Finding, may_fix: bool) -> list[tuple[str, str]]:
    if detector.fix is None or not may_fix:
        return []
    url = reverse("governance_fix", args=[detector.number])
    return [(translate(detector.fix.label), f"{url}?{urlencode({'subject': finding.subject})}")]


def _links(request: HttpRequest, detector: Detector, finding: Finding) -> list[tuple[str, str]]:
    way = _WAYS.get(detector.number)
    return way(request, finding.subject) if way is not None else []


def _to_sink(request: HttpRequest, name: str) -> list[tuple[str, str]]:
    pages = (
        ("journal.view_sink", gettext("Sinks"), list_url(Sink)),
        (
            "journal.view_sinkreject",
            gettext("Refused entries"),
            list_url(SinkReject, sink=name),
        ),
    )
    return [(text, url) for permission, text, url in pages if request.user.has_perm(permission)]


def _to_type(request: HttpRequest, name: str) -> list[tuple[str, str]]:
    row = JobType.objects.visible_to(request.user).filter(name=name).first()
    if row is None or not request.user.has_perm("jobs.view_jobtype"):
        return []
    return [(gettext("Job type"), page_url(JobType, row.pk))]


def _to_retry(request: HttpRequest, value: str) -> list[tuple[str, str]]:
    type_, key = error_of(value)
    asked = {"type": type_, "error_key": key}
    jobs = list_url(Job, **asked)
    ways = [(gettext("Jobs"), jobs)] if request.user.has_perm("jobs.view_job") else []
    if request.user.has_perm("jobs.operate_job"):
        asked["back"] = reverse("governance")
        retry = f"{reverse(GROUP_URL, args=['retry'])}?{urlencode(asked)}"
        ways.append((gettext("Retry…"), retry))
    return ways


_WAYS: Mapping[str, Callable[[HttpRequest, str], list[tuple[str, str]]]] = {
    "G4": _to_sink,
    "G5": _to_sink,
    "G7": _to_type,
    "G9": _to_retry,
}

words.register(
    events={FIXED: words.Event(_("Finding fixed"), "build", "info")},
    names={"detector": _("detector"), "finding": _("finding")},
)
