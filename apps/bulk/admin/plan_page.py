"""The page before a bulk run: the rows to be changed, those left out and why, and the start."""

from __future__ import annotations

import secrets
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext, ngettext

from apps.bulk.admin import words
from apps.bulk.admin.chips import chips
from apps.bulk.admin.forms import FORMS, PREFIX, ParamsForm, StartForm
from apps.bulk.models import BulkRun
from apps.bulk.rules.settings import RATE
from apps.bulk.services import runs
from apps.bulk.services.plan import Plan, plan
from apps.bulk.services.selection import CHANGED_BY, Selection, changed_by
from apps.bulk.services.targets import TARGETS, Target, check
from apps.common import clock
from apps.common.admin.actions import actor_of, leave_words
from apps.common.admin.display import listed, shown_text, translate
from apps.common.admin.html import list_url, page_url
from apps.common.admin.pages import framed
from apps.common.errors import FieldError, Invalid, PlatformError
from apps.common.filtersets import Door
from apps.common.json.search import require_unmasked
from apps.jobs.models import bounds_of

MAX_LABEL = 80


def plan_page(request: HttpRequest, kind: str, verb: str) -> HttpResponse:
    """Show what the verb would do to all rows that the address means; a POST starts it."""
    target, user = TARGETS.get(kind), request.user
    if target is None or verb not in target.verbs:
        raise Http404(f"no bulk action {kind} {verb}")
    if not user.has_perm(target.verbs[verb].permission):
        raise PermissionDenied
    given = {name: str(text) for name, text in request.GET.items()}
    own = {name: text for name, text in given.items() if name.startswith(f"{PREFIX}-")}
    asked = {name: text for name, text in given.items() if name not in own and text}
    filters = {name: text for name, text in asked.items() if name != CHANGED_BY}
    try:
        visible = BulkRun.objects.visible_to(user)
        earlier = changed_by(
            target, asked.get(CHANGED_BY), lambda pk: visible.filter(pk=pk).first()
        )
        zone = get_current_timezone()
        wanted = target.filters.read_address(filters, zone, door=Door.BULK)
        selection = Selection(target, wanted, earlier)
        require_unmasked(selection.wanted.where)
    except Invalid as error:
        messages.warning(request, translate(error.detail))
        return HttpResponseRedirect(list_url(target.model))
    if not user.has_perms(target.permissions(target.verbs[verb], selection.wanted)):
        raise PermissionDenied
    back = list_url(target.model, **filters)
    if earlier is not None:
        back = page_url(BulkRun, earlier)
    params_form, params, is_complete = _params(target, verb, request, own)
    planned = plan(selection, verb, params, bounds=bounds_of(user), rate=RATE)
    needs_every = not selection.is_narrowed
    start_form = None
    # A form that is sent again after its run has changed all rows leads to that run.
    if is_complete and planned.matches and (planned.may_change or request.method == "POST"):
        initial = {"once": secrets.token_hex(16)}
        if planned.is_exact:
            initial["at_most"] = str(planned.matches)
        options: Any = {"needs_every": needs_every, "is_exact": planned.is_exact}
        data = request.POST if request.method == "POST" else None
        start_form = StartForm(data, initial=initial, request=request, **options)
        if data is not None and start_form.is_valid():
            run = _start(request, selection, verb, params, start_form, planned)
            if run is not None:
                return HttpResponseRedirect(page_url(BulkRun, run.pk))
    status = 400 if start_form is not None and start_form.errors else 200
    return framed(
        request,
        "admin/bulk_plan.html",
        status=status,
        title=words.named(kind, verb),
        chips=[*chips(selection, user)],
        every=needs_every,
        params_form=params_form,
        hidden=asked,
        form=start_form,
        url=f"{request.path}{_query({**asked, **own})}",
        lines=[*_lines(planned, is_complete=is_complete)],
        samples=[_drawn(each, target.model) for each in planned.samples],
        words=translate(target.verbs[verb].words),
        is_dangerous=target.verbs[verb].is_dangerous,
        back=back,
        leave=leave_words(verb),
    )


def _params(
    target: Target, verb: str, request: HttpRequest, own: dict[str, str]
) -> tuple[ParamsForm | None, dict[str, Any], bool]:
    """The form of the fields of the verb, their values, and whether the verb has all it needs."""
    form_class = FORMS.get((target.kind, verb))
    if form_class is None:
        return None, {}, True
    form = form_class(request.GET if own else None, prefix=PREFIX)
    is_needed = bool(target.verbs[verb].needed({}))
    if not own:
        return form, {}, not is_needed
    if not form.is_valid():
        return form, {}, False
    params = form.params()
    try:
        check(target, verb, params, clock.now())
    except Invalid as error:
        _show(form, error, "params.")
        return form, {}, False
    return form, params, True


def _start(
    request: HttpRequest,
    selection: Selection,
    verb: str,
    params: dict[str, Any],
    form: StartForm,
    planned: Plan,
) -> BulkRun | None:
    given = form.cleaned_data
    try:
        return runs.start(
            selection=selection,
            verb=verb,
            params=params,
            at_most=None if given.get("however_many") else given["at_most"],
            rate=given["rate"],
            reason=given["reason"],
            actor=actor_of(request),
            bounds=bounds_of(request.user),
            request_id=given["once"],
            known=planned.matches if planned.is_exact else None,
        )
    except PlatformError as error:
        _show(form, error)
        return None


def _show(form: Any, error: PlatformError, path: str = "") -> None:
    for each in error.errors or [FieldError("", error.code, error.detail)]:
        name = each.field.removeprefix(path)
        form.add_error(name if name in form.fields else None, translate(each.message))


def _lines(planned: Plan, *, is_complete: bool) -> Any:
    """The plan in sentences, one a line; while fields are missing, by the states of rows alone."""
    count = f"{planned.matches:,}"
    if planned.is_exact:
        yield ngettext("%s row matches", "%s rows match", planned.matches) % count
    else:
        values = {"count": count, "looked": f"{planned.looked:,}"}
        yield gettext("%(count)s rows match among the newest %(looked)s") % values
    is_sure = is_complete or not planned.eligible
    will = gettext("%s will change") if is_sure else gettext("at most %s will change")
    yield will % f"{planned.eligible:,}"
    for why, number in planned.notes:
        yield f"{number:,}: {translate(why)}"
    left = planned.matches - planned.eligible
    if left:
        parts = listed(f"{number:,} {translate(why)}" for why, number in planned.left_out)
        yield gettext("%(count)s left out: %(reasons)s") % {"count": f"{left:,}", "reasons": parts}
    if not planned.may_change:
        yield gettext("So there is nothing to start.")
    if planned.eligible and planned.is_exact:
        pace = {"time": words.lasting(planned.seconds), "rate": planned.rate}
        yield gettext("about %(time)s at %(rate)d rows per second") % pace


def _drawn(sample: Any, model: type[Model]) -> dict[str, str]:
    return {
        "number": str(sample.number),
        "url": page_url(model, sample.number),
        "label": shown_text(sample.label, limit=MAX_LABEL),
        "change": translate(sample.change),
        "why": sample.why and gettext("left out: %s") % translate(sample.why),
    }


def _query(asked: dict[str, str]) -> str:
    return f"?{urlencode(asked)}" if asked else ""
