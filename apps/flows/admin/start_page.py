"""The page that starts a run of a flow: a form made of the schema of its params, and what will
happen."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextInputWidget

from apps.common import sent_forms
from apps.common.admin.actions import actor_of
from apps.common.admin.display import shown_text, translate
from apps.common.admin.html import page_link, page_url
from apps.common.admin.schema_form import SchemaForm
from apps.common.admin.service import DRAFT
from apps.common.errors import FieldError, PlatformError
from apps.common.json.schema import check_params
from apps.common.sent_forms import SentBefore
from apps.flows.admin.flow_page import tabs_of
from apps.flows.admin.graph import graph_of
from apps.flows.admin.run_words import length_of
from apps.flows.admin.step_words import outlook, people_of
from apps.flows.models import MAX_KEY, Flow, FlowRun, FlowStep
from apps.flows.services.progress import lasted
from apps.flows.services.start import start
from apps.jobs.models import bounds_of


class StartForm(forms.Form):
    key = forms.CharField(
        label=pgettext_lazy("of a run", "Key"),
        max_length=MAX_KEY,
        required=False,
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "off"}),
        help_text=_("Of a flow and key at most one run is open, for example one of a day."),
    )
    once = forms.CharField(
        max_length=64, required=False, initial=sent_forms.new_number, widget=forms.HiddenInput
    )


class _IsOpen(Exception):
    """A run of this key is open already."""

    def __init__(self, run: int) -> None:
        super().__init__(run)
        self.run = run


def start_page(request: HttpRequest, *, model_admin: Any, pk: int) -> HttpResponse:
    """The form (GET), or the run that it starts (POST)."""
    row = model_admin.existing(request, pk, may="start")
    if why := _why_not(row):
        model_admin.message_user(request, why, messages.WARNING)
        return HttpResponseRedirect(model_admin.row_url(row.pk))
    is_draft = DRAFT in request.POST
    data = request.POST if request.method == "POST" else None
    form = StartForm(data)
    params = _params_form(row, data, is_draft=is_draft and request.POST[DRAFT] != "check")
    if data is not None:
        are_valid = form.is_valid() & params.is_valid()
        if are_valid and not is_draft:
            answer = _started(request, row, form, params)
            if answer is not None:
                return answer
    return _page(model_admin, request, row, form, params)


def _why_not(row: Any) -> str:
    if not row.is_newest:
        return gettext("There is a newer version; only the newest one can be started.")
    if row.status != Flow.Status.ACTIVE:
        return gettext("%s is retired; make it active again first.") % str(row)
    return ""


def _params_form(row: Flow, data: Any, *, is_draft: bool) -> SchemaForm:
    schema = row.read.params
    return SchemaForm(
        schema,
        stored=None,
        check=lambda params: check_params(schema, params),
        data=data,
        is_draft=is_draft,
    )


def _started(
    request: HttpRequest, row: Flow, form: StartForm, params: SchemaForm
) -> HttpResponse | None:
    """Start the run and lead to its page; None when the form says why there is none."""

    def make() -> FlowRun:
        begun = start(
            row.name,
            params.params,
            key=form.cleaned_data["key"],
            by=actor_of(request),
            bounds=bounds_of(request.user),
        )
        if not begun.created:
            raise _IsOpen(begun.id)
        return FlowRun(pk=begun.id)

    try:
        number = sent_forms.number_of(form.cleaned_data["once"])
        made = make() if number is None else sent_forms.make_once(number, make)
        run: int | None = made.pk
    except SentBefore as before:
        run = before.row
    except _IsOpen as found:
        text = gettext("Run {} of this key is still open.")
        form.add_error("key", format_html(text, page_link(FlowRun, found.run)))
        return None
    except PlatformError as refusal:
        _show(form, params, refusal.errors or [FieldError("", "", refusal.detail)])
        return None
    messages.success(request, gettext("The run was started."))
    return HttpResponseRedirect(page_url(FlowRun, run))


def _show(form: StartForm, params: SchemaForm, errors: Any) -> None:
    for error in errors:
        if error.field.startswith("params"):
            params.show([error])
        else:
            name = error.field if error.field in form.fields else None
            form.add_error(name, translate(error.message if name else error.named))


def _page(
    model_admin: Any, request: HttpRequest, row: Flow, form: StartForm, params: SchemaForm
) -> HttpResponse:
    people = people_of([row.read], request.user)
    known = params.params if params.is_bound and params.is_valid() else None
    page: HttpResponse = model_admin.page(
        request,
        "admin/flows/start.html",
        title=_("Start…"),
        header_tabs=tabs_of(model_admin, request, row, ""),
        flow=row,
        flow_title=shown_text(row.title, limit=80) or row.name,
        flow_url=model_admin.row_url(row.pk),
        form=form,
        params_form=params,
        outlook=outlook(row.read, people, known),
        last=_last(request, row),
        graph=graph_of(row.read, people),
    )
    return page


def _last(request: HttpRequest, row: Flow) -> SafeString | None:
    """The last run that succeeded, in words: `Run 7 made 20 jobs and took 1 h 20 min.`"""
    user: Any = request.user
    if not user.has_perm("flows.view_flowrun"):
        return None
    ended = FlowRun.objects.visible_to(user).filter(
        flow=row.name, status=FlowRun.Status.SUCCEEDED, finished_at__isnull=False
    )
    run = ended.order_by("-pk").defer("definition", "params").first()
    if run is None:
        return None
    made = FlowStep.objects.filter(run=run.pk).aggregate(made=Sum("made"))["made"] or 0
    return format_html(
        ngettext(
            "{run}, the last one that succeeded, made {count} job and took {took}.",
            "{run}, the last one that succeeded, made {count} jobs and took {took}.",
            made,
        ),
        run=page_link(FlowRun, run.pk, gettext("Run %s") % run.pk),
        count=made,
        took=length_of(lasted(run)),
    )
