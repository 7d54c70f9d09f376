"""The meaning of a task's form while it is filled in: who could take the task, when it is due next,
one sentence, and the changes of queues in one line. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import listed, plain_time, shown_text, translate
from apps.common.admin.durations import written
from apps.common.admin.html import joined
from apps.common.admin.service import DRAFT
from apps.common.admin.who import Known
from apps.common.durations import seconds_of
from apps.common.errors import PlatformError
from apps.dispatch.admin import what_if
from apps.dispatch.admin.preview import may_view
from apps.dispatch.models import Dispatch, Executor, RotateTask, Task
from apps.dispatch.rules.recurrence import stored_series
from apps.dispatch.rules.summary import in_words

MAX_TITLE = 80
ON_FAILURE: dict[str, str | Promise] = {
    Task.OnFailure.FINISH: _("if it fails: it counts, no new try"),
    Task.OnFailure.GIVE_BACK: _("if it fails: others may try"),
    Task.OnFailure.RETRY_SAME: _("if it fails: the same person tries again"),
}
ON_EXPIRY: dict[str, str | Promise] = {
    Task.OnExpiry.GIVE_BACK: _("if time runs out: others may try"),
    Task.OnExpiry.KEEP: _("if time runs out: it counts"),
}
MISFIRE: dict[str, str | Promise] = {
    RotateTask.Misfire.SKIP: _("missed runs are skipped"),
    RotateTask.Misfire.ONCE: _("of missed runs the newest is made up for"),
    RotateTask.Misfire.ALL: _("missed runs are made up for"),
}


# --- the fragment -------------------------------------------------------------------------------
def new_view(request: HttpRequest, *, model_admin: Any) -> HttpResponse:
    """Show the meaning of the form of a new task, which is sent as for a save."""
    if not model_admin.has_add_permission(request):
        raise PermissionDenied
    other = model_admin.other_kind(request)
    return _answer(other or model_admin, request, None)


def view(request: HttpRequest, *, model_admin: Any, pk: int) -> HttpResponse:
    """Show the meaning of the form of this task."""
    return _answer(model_admin, request, model_admin.existing(request, pk, may="change"))


def _answer(model_admin: Any, request: HttpRequest, row: Any) -> HttpResponse:
    form = _read_form(model_admin, request, row)
    context = {**_meaning_of(request, row, form), "adminform": {"form": form}, "is_fragment": True}
    return render(request, "admin/includes/task_said.html", context)


def context(model_admin: Any, request: HttpRequest, row: Any, form: Any) -> dict[str, Any]:
    """The variables of the form's page: the meaning of the draft that was sent, or of the task."""
    if not form.may_change:
        return {}
    address = ("said_of_new",) if row is None else ("said", row.pk)
    own = {"said_url": model_admin.url(*address), "more_line": more_line(form)}
    if request.method == "POST":
        return {**own, **_meaning_of(request, row, _read_form(model_admin, request, row))}
    if row is None:
        return {**own, "who": "", "sentence": "", "next_runs": form.short_next_runs}
    return {
        **own,
        "who": who_line(request, row.executor),
        "sentence": sentence(_stored_values(row), form),
        "next_runs": form.short_next_runs,
    }


def _read_form(model_admin: Any, request: HttpRequest, row: Any) -> Any:
    """The form with what was sent, which saves nothing."""
    form = model_admin.get_form(request, row, change=row is not None)
    sent = request.POST.copy()
    sent.pop(DRAFT, None)
    read = type(form.__name__, (form,), {"write": None})(sent, instance=row)
    read.is_valid()
    return read


def _meaning_of(request: HttpRequest, row: Any, form: Any) -> dict[str, Any]:
    executor = form.cleaned_data.get("executor")
    said: dict[str, Any] = {
        "who": who_line(request, executor) if executor else "",
        "next_runs": form.short_next_runs,
        "more_line": more_line(form),
    }
    if not form.is_valid():
        return {**said, "missing": _missing(form)}
    values = form.new_values if row is None else {**_stored_values(row), **form.changes}
    # Beside the whole comparison its first line says nothing.
    difference = "" if what_if.BUTTON in request.POST else _change(request, row, form)
    return {**said, "sentence": sentence(values, form), "difference": difference}


def _stored_values(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in type(row).editable}


def _missing(form: Any) -> str:
    """The labels of the fields that have errors."""
    labels = [str(form.fields[name].label) for name in form.errors if name in form.fields]
    if form.params_form is not None:
        fields = form.params_form.fields
        labels += [str(fields[name].label) for name in form.params_form.errors if name in fields]
    return listed(labels)


def _change(request: HttpRequest, row: Any, form: Any) -> SafeString | str:
    """The first line of the comparison that *What if?* shows."""
    try:
        if row is None:
            found = what_if.compare_new(request, form._meta.model, form.new_values)
        else:
            found = what_if.compare_edit(request, row, form.changes, version=row.version)
    except PlatformError as refusal:
        return translate(refusal.detail)
    summary: SafeString = found["summary"]
    return summary


# --- its words ----------------------------------------------------------------------------------
def who_line(request: HttpRequest, executor: Executor) -> SafeString:
    """`Photo check · 8 people · 7 could take it now`."""
    name = executor.title or executor.name
    if not executor.is_group:
        free = "" if executor.enabled else gettext("disabled: gets nothing")
        if executor.enabled and may_view(request.user, Dispatch):
            is_busy = Dispatch.objects.filter(open_for=executor.pk).exists()
            free = gettext("holds another task now") if is_busy else gettext("could take it now")
        return _parts(name, free)
    members = Executor.objects.filter(memberships__group=executor.pk)
    count = members.count()
    people = ngettext("%d person", "%d people", count) % count
    if not may_view(request.user, Dispatch):
        return _parts(name, people)
    busy = Dispatch.objects.filter(open_for__in=members.values("pk")).values("open_for")
    able = members.filter(enabled=True).exclude(pk__in=busy).count() if executor.enabled else 0
    return _parts(
        name, people, ngettext("%d could take it now", "%d could take it now", able) % able
    )


def _parts(*parts: str) -> SafeString:
    return joined((part for part in parts if part), " · ", each="<bdi>{}</bdi>")


def sentence(values: dict[str, Any], form: Any) -> SafeString:
    """`Every Monday at 09:00: one person of Photo check – “Count the till”; each has 1 h.`"""
    return format_html(
        gettext("{when}: {who} – “{title}”; each has {time}."),
        when=capfirst(_when(values, form)),
        who=_who(values),
        title=format_html("<bdi>{}</bdi>", shown_text(values["title"], limit=MAX_TITLE)),
        time=written(values["lease_seconds"]),
    )


def _when(values: dict[str, Any], form: Any) -> str:
    if form.has_rule:
        rule, _zone = stored_series(values["rule"], values["time_zone"])
        return translate(in_words(rule))
    start: datetime | None = values.get("start_at")
    return gettext("now") if start is None else gettext("on %s") % plain_time(start)


def _who(values: dict[str, Any]) -> SafeString:
    executor, times = values["executor"], values["dispatch_times"]
    needs_count = times is not None and values["mode"] == Task.Mode.MULTI and executor.is_group
    people = executor.members.count() if needs_count else 0
    known = Known(executor.name, executor.title, is_group=executor.is_group)
    return who_words(known, values["mode"], times, people)


def who_words(executor: Known, mode: str, times: int | None, people: int) -> SafeString:
    """`6 of the 20 people of All staff, each at most once`; `people` are the members of the
    group."""
    name = format_html("<bdi>{}</bdi>", executor.title or executor.name)
    if mode == Task.Mode.BLOCKING:
        text = gettext("{name}, {times} times, the same person again, too")
        if not executor.is_group:
            text = gettext("{name}, {times} times, one after another")
    elif not executor.is_group:
        text = "{name}"
    elif mode == Task.Mode.SINGLE:
        text = gettext("one person of {name}")
    elif times is None:
        text = gettext("each person of {name}, once")
    else:
        text = ngettext(
            "{times} of the one person of {name}, each at most once",
            "{times} of the {people} people of {name}, each at most once",
            people,
        )
    return format_html(text, name=name, times=times, people=people)


def more_line(form: Any) -> str:
    """`done within 1 h · if it fails: it counts, no new try · … · priority 0`."""
    return " · ".join(str(part) for part in _more(form) if part)


def _more(form: Any) -> Iterable[str | Promise]:
    def now(name: str) -> str:
        return str(form[name].value() or "") if name in form.fields else ""

    lease = form["lease_seconds"].value()
    yield gettext("done within %s") % _as_duration(lease)
    yield ON_FAILURE.get(now("on_failure"), "")
    yield ON_EXPIRY.get(now("on_expiry"), "")
    yield gettext("priority %s") % (now("priority") or 0)
    if form.has_rule:
        yield MISFIRE.get(now("misfire"), "")
        yield now("time_zone")
    if now("status") == Task.Status.PAUSED:
        yield gettext("paused")


def _as_duration(value: Any) -> str:
    try:
        return written(float(seconds_of(str(value))))
    except ValueError:
        return "?"
