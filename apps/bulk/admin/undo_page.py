"""Undo: the page that asks, and the bar that offers it after an act."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext, ngettext

from apps.bulk.admin import words
from apps.bulk.models import BulkRun
from apps.bulk.services import undo
from apps.bulk.services.targets import TARGETS
from apps.bulk.services.undo import Deed, Undone
from apps.common.admin.actions import ACT, actor_of, local_url, remembered
from apps.common.admin.display import shown_actor, shown_text, translate
from apps.common.admin.html import list_url, page_url
from apps.common.admin.pages import framed
from apps.common.readers import read_number
from apps.jobs.models import bounds_of
from apps.journal.admin.words import event_of
from apps.journal.services.undo import is_offered, late

UNDO_URL = "undo"
MAX_LABEL = 120


def deed_url(deed: Deed) -> str:
    """The address of the page that asks whether to undo the deed."""
    asked = {"kind": deed.kind, "verb": deed.verb, "by": deed.actor}
    ids = {"first": str(deed.first), "last": str(deed.last)}
    return f"{reverse(UNDO_URL)}?{urlencode(asked | ids)}"


def undo_page(request: HttpRequest) -> HttpResponse:
    """Ask (GET) whether to undo a bulk run or what somebody did to some rows, or do it (POST)."""
    if "run" in request.GET:
        return _of_run(request, read_number(request.GET["run"]) or 0)
    deed = _deed(request)
    if deed is None:
        every = [verb for target in TARGETS.values() for verb in target.verbs.values()]
        if not any(request.user.has_perm(verb.permission) for verb in every if verb.is_undone):
            raise PermissionDenied
        messages.warning(request, gettext("There is nothing to undo."))
        return HttpResponseRedirect(list_url(BulkRun))
    if not request.user.has_perm(deed.does.permission):
        raise PermissionDenied
    back = local_url(request.POST.get("back", "")) or list_url(deed.target.model)
    if deed.is_late:
        messages.warning(request, translate(late()))
        return HttpResponseRedirect(back)
    if request.method != "POST":
        count = len(deed.rows(bounds_of(request.user)))
        what = str(event_of(deed.does.event).words)
        return _ask(request, deed.kind, deed.verb, what, deed.actor, count, back)
    outcome = undo.undo(deed, actor=actor_of(request), bounds=bounds_of(request.user))
    kept = request.session.get(ACT)
    # Another tab may have acted since: that is still offered.
    if kept and kept["first"] <= deed.last and deed.first <= kept["last"]:
        remembered(request, None)
    return _report(request, deed, outcome, back)


def _of_run(request: HttpRequest, number: int) -> HttpResponse:
    run = BulkRun.objects.visible_to(request.user).filter(pk=number).first()
    if run is None:
        raise Http404(f"no bulk run {number}")
    if not undo.may_undo(run, request.user):
        raise PermissionDenied
    if (why := undo.why_not(run)) is not None:
        messages.warning(request, translate(why))
        return HttpResponseRedirect(page_url(BulkRun, run.pk))
    if request.method != "POST":
        what, back = words.named(run.kind, run.verb), page_url(BulkRun, run.pk)
        return _ask(request, run.kind, run.verb, what, run.actor, run.done, back)
    new = undo.undo_run(run, actor=actor_of(request), bounds=bounds_of(request.user))
    return HttpResponseRedirect(page_url(BulkRun, new.pk))


def _deed(request: HttpRequest) -> Deed | None:
    """The deed that the address names; None if it names nothing that can be undone."""
    given = request.GET
    target, verb = TARGETS.get(given.get("kind", "")), given.get("verb", "")
    first, last = (read_number(given.get(name, "")) for name in ("first", "last"))
    if target is None or verb not in target.verbs or first is None or last is None:
        return None
    if not target.verbs[verb].is_undone:
        return None
    return Deed(target.kind, verb, given.get("by", ""), first, last)


def _ask(
    request: HttpRequest, kind: str, verb: str, what: str, actor: str, count: int, back: str
) -> HttpResponse:
    said = ngettext(
        "%(what)s, by %(who)s: %(count)s row", "%(what)s, by %(who)s: %(count)s rows", count
    )
    said %= {"what": what, "who": shown_actor(actor), "count": f"{count:,}"}
    return framed(
        request,
        "admin/undo.html",
        title=gettext("Undo"),
        said=said,
        how=translate(TARGETS[kind].verbs[verb].undo),
        back=back,
        url=request.get_full_path(),
        count=count,
    )


def _report(request: HttpRequest, deed: Deed, outcome: Undone, back: str) -> HttpResponse:
    done, left = outcome.done, len(outcome.left)
    said = ngettext("Undone: %d row.", "Undone: %d rows.", done) % done
    if not done and not left:
        # Such as jobs that were running, and are asked to stop.
        messages.warning(request, gettext("There is nothing to undo."))
        return HttpResponseRedirect(back)
    if not left:
        messages.success(request, said)
        return HttpResponseRedirect(back)
    labels = deed.target.labels(outcome.left)
    return framed(
        request,
        "admin/reason_report.html",
        title=gettext("Undo"),
        counted=said,
        counted_skipped=ngettext("%d row skipped.", "%d rows skipped.", left) % left,
        done=done,
        skipped=[
            (shown_text(f"{pk} · {labels.get(pk, '')}", limit=MAX_LABEL), translate(why))
            for pk, why in outcome.left.items()
        ],
        back=back,
    )


# --- the bar --------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Bar:
    """The sentence about the last act, and the address that undoes it."""

    said: str
    url: str
    back: str


def bar(request: HttpRequest) -> Bar | None:
    """The last act of the session, if it is recent and its verb can be undone."""
    act = getattr(request, "session", {}).get(ACT)
    if not act or request.path == reverse(UNDO_URL):
        return None
    if not is_offered(datetime.fromisoformat(act["at"])):
        remembered(request, None)
        return None
    kinds = {target.model._meta.label_lower: target for target in TARGETS.values()}
    target = kinds.get(act["model"])
    does = target.verbs.get(act["verb"]) if target else None
    if target is None or does is None or not does.is_undone:
        return None
    if not request.user.has_perm(does.permission):
        return None
    deed = Deed(target.kind, does.name, actor_of(request), act["first"], act["last"])
    return Bar(act["said"], deed_url(deed), request.get_full_path())
