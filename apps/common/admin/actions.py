"""Actions that ask for a reason: on the list for many rows, on the page of a row for one.

The confirm page is a form with the reason and any further fields. The decorated method then acts
on one row after the other, each in the transaction of its service; a PlatformError skips that row
only. An action with `at_once` gets all rows and returns an ActionResult.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.utils.functional import Promise
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextareaWidget

from apps.common import clock, ids
from apps.common.admin.display import shown_text, translate
from apps.common.admin.sent import acting_once
from apps.common.errors import FieldError, PlatformError
from apps.common.json_rules import INTEGERS
from apps.common.verbs import Verb

MAX_ROWS = 1000
MAX_REASON = 500
MAX_NAMED = 20
MAX_LABEL = 120
# The key of the session that holds the last act that can be undone.
ACT = "act"

Act = Callable[..., object]
# Further pages of an admin, as unfold takes them: path, name and view.
CustomUrls = tuple[tuple[str, str, Callable[..., HttpResponseBase]], ...]


def actor_of(request: HttpRequest) -> str:
    """The name of the requesting person in the journal: `admin:alice`."""
    return f"admin:{request.user.get_username()}"


class ReasonForm(forms.Form):
    """The form of a confirm page; values of further fields are passed to the action by name."""

    reason = forms.CharField(
        label=_("Reason"),
        max_length=MAX_REASON,
        help_text=_("Kept in the journal beside your name."),
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
    )

    def __init__(self, *args: Any, request: HttpRequest | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request = request
        self.order_fields([name for name in self.fields if name != "reason"])
        fields = [each.field for each in self.visible_fields()]
        # What can be left empty is passed over: who begins to type writes what must be said.
        first = next((each for each in fields if each.required), fields[0])
        first.widget.attrs["autofocus"] = True


class OnceForm(ReasonForm):
    """The form of actions that must not run twice: `once` stays the same when the form is sent
    again and differs whenever it is opened."""

    once = forms.CharField(
        max_length=64, required=False, initial=secrets.token_hex, widget=forms.HiddenInput
    )


@dataclass(kw_only=True)
class ReasonAction:
    """An action of an admin on the rows of its list, and a button on the page of each row.

    It decorates `method(self, row, *, reason, actor)`, which acts on one row by a service; name the
    method in `actions`. The method returns False when there was nothing to do, and raises
    PlatformError when the row's state does not allow it; both count as skipped.
    """

    description: str | Promise
    # Stands for `has_<permission>_permission`.
    permission: str
    question: str | Promise = ""
    icon: str = ""
    is_dangerous: bool = False
    # Whether the page of a row has the button, which `key` presses if there is one.
    offered: Callable[[Any], bool] = lambda row: True
    key: str = ""
    form: type[ReasonForm] = ReasonForm
    # The method gets the queryset of all selected rows that this person may see.
    at_once: bool = False
    # One more action undoes it, so it asks neither whether nor why.
    is_harmless: bool = False
    # Reports the number of rows, as ngettext_lazy("%d job cancelled.", "%d jobs cancelled."), or
    # makes the sentence of what the method has returned for each row.
    done: Any = None
    # What it does, if bulk runs do it, too: it says whether that is dangerous, and one that can be
    # undone is reported beside its undo.
    verb: Verb | None = None
    act: Act = field(init=False)
    do_not_call_in_templates: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.verb is not None:
            self.is_dangerous = self.verb.is_dangerous

    def __call__(self, act: Act) -> Callable[..., Any]:
        """Make the method an action of Django's lists."""

        @functools.wraps(act)
        def action(admin: Any, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponseBase:
            pks = list(rows.order_by("pk").values_list("pk", flat=True)[: MAX_ROWS + 1])
            back = request.get_full_path()
            if self.is_harmless:
                return _act(admin, request, self, pks, {"reason": ""}, back=back)
            return _confirm(admin, request, self, pks, back=back)

        action.short_description = self.description  # type: ignore[attr-defined]
        action.allowed_permissions = (self.permission,)  # type: ignore[attr-defined]
        self.act = act
        action.spec = self  # type: ignore[attr-defined]
        return action

    def report(self, outcome: ActionResult) -> str:
        """How many rows the action was applied to, or what it made of them, as a sentence."""
        # Without a changed row there is nothing to report.
        if callable(self.done) and outcome.results:
            return str(self.done(outcome.results))
        if self.done is not None and not callable(self.done):
            return str(self.done % outcome.done)
        rows = ngettext("%d row done.", "%d rows done.", outcome.done) % outcome.done
        return f"{self.description}: {rows}"

    @property
    def is_undone(self) -> bool:
        """Whether the action can be undone."""
        return self.verb is not None and self.verb.is_undone

    def filled_form(self, *given: Any, request: HttpRequest) -> ReasonForm:
        """The form of the confirm page; a harmless action takes none for its reason."""
        form = self.form(*given, request=request)
        if self.is_harmless:
            form.fields["reason"].required = False
            form.fields["reason"].widget = forms.HiddenInput()
        return form


@dataclass(kw_only=True)
class ActionResult:
    """How many rows were changed (or made), and the skipped rows with the reason.

    The reason None means that there was nothing to do. `results` is what the action returned for
    each row that was changed.
    """

    done: int = 0
    results: list[Any] = field(default_factory=list)
    skipped: list[tuple[str, str | None]] = field(default_factory=list)


def act_view(request: HttpRequest, *, model_admin: Any, name: str) -> HttpResponseBase:
    """Show the confirm page (GET) or carry out the action (POST, with a reason if it needs one)."""
    admin = model_admin
    spec = specs(admin).get(name)
    if spec is None:
        raise Http404(f"no action {name!r}")
    if not allows(admin, request, spec):
        raise PermissionDenied
    given = request.POST if request.method == "POST" else request.GET
    try:
        pks = _read_pks(admin, given.get("ids", ""))
    except ValidationError:
        admin.message_user(request, gettext("Nothing was selected."), messages.WARNING)
        return HttpResponseRedirect(admin.changelist_url())
    back = _local(given.get("back", "") or request.GET.get("back", ""), admin, pks)
    if request.method != "POST":
        return _confirm(admin, request, spec, pks, back=back)
    return _act(admin, request, spec, pks, request.POST, back=back)


def confirm_view(
    admin: Any, request: HttpRequest, name: str, pks: Sequence[Any], *, back: str, note: str = ""
) -> HttpResponseBase:
    """The confirm page for rows that a rule has selected; `note` describes it."""
    spec = specs(admin)[name]
    if not allows(admin, request, spec):
        raise PermissionDenied
    return _confirm(admin, request, spec, pks, back=back, note=note)


def leave_words(name: str) -> str:
    """The word of the link away from the page that asks: *Back* where it asks about a cancel."""
    return gettext("Back") if "cancel" in name else gettext("Cancel")


def local_url(url: str) -> str:
    """The address when it is one of this site, else ""."""
    is_local = url.startswith("/") and url_has_allowed_host_and_scheme(url, allowed_hosts=None)
    return url if is_local else ""


def specs(admin: Any) -> dict[str, ReasonAction]:
    """The actions of the admin by name."""
    found = [getattr(admin, each) if isinstance(each, str) else each for each in admin.actions]
    return {each.__name__: each.spec for each in found if hasattr(each, "spec")}


def allows(admin: Any, request: HttpRequest, spec: ReasonAction) -> bool:
    """Whether this person may carry the action out on some rows."""
    return bool(getattr(admin, f"has_{spec.permission}_permission")(request))


def read_pk(admin: Any, text: str) -> Any:
    """The primary key that the text names; ValidationError when no row could have it."""
    pk = admin.opts.pk.to_python(text)
    if isinstance(pk, int) and not INTEGERS[0] <= pk <= INTEGERS[1]:
        raise ValidationError("beyond 64 bits")
    return pk


def _read_pks(admin: Any, text: str) -> list[Any]:
    """The keys in `text`, ascending and each once; ValidationError when one cannot be a key."""
    texts = {part for part in text.split(",") if part}
    if not texts:
        raise ValidationError("no keys")
    return sorted(read_pk(admin, part) for part in texts)


def _local(url: str, admin: Any, pks: Sequence[Any]) -> str:
    """The address to go to afterwards: the given one of this site, the row's page or the list."""
    there = admin.row_url(pks[0]) if len(pks) == 1 else admin.changelist_url()
    return local_url(url) or str(there)


def _rows(admin: Any, request: HttpRequest) -> QuerySet[Any]:
    """The rows that this person may see, with what their labels need."""
    rows: QuerySet[Any] = admin.get_queryset(request)
    related = admin.list_select_related
    return rows.select_related(*related) if isinstance(related, tuple) else rows


def _confirm(
    admin: Any,
    request: HttpRequest,
    spec: ReasonAction,
    pks: Sequence[Any],
    *,
    back: str,
    form: ReasonForm | None = None,
    note: str = "",
) -> HttpResponseBase:
    if len(pks) > MAX_ROWS:
        text = gettext("At most %d rows at once; narrow the list by its filters first.") % MAX_ROWS
        admin.message_user(request, text, messages.WARNING)
        return HttpResponseRedirect(back)
    rows = _rows(admin, request).filter(pk__in=pks[:MAX_NAMED]).order_by("pk")
    page: HttpResponseBase = admin.page(
        request,
        "admin/reason_confirm.html",
        title=spec.description,
        spec=spec,
        note=note,
        url=admin.url("act", spec.act.__name__),
        leave=leave_words(spec.act.__name__),
        form=form or spec.filled_form(request=request),
        rows=[shown_text(admin.row_label(row), limit=MAX_LABEL) for row in rows],
        more=max(0, len(pks) - MAX_NAMED),
        count=len(pks),
        ids=",".join(str(pk) for pk in pks),
        back=back,
    )
    return page


def _act(
    admin: Any,
    request: HttpRequest,
    spec: ReasonAction,
    pks: Sequence[Any],
    given: Mapping[str, Any],
    *,
    back: str,
) -> HttpResponseBase:
    """Carry out the action with these fields of its form; the confirm page again for wrong ones."""
    form = spec.filled_form(given, request=request)
    if len(pks) > MAX_ROWS or not form.is_valid():
        return _confirm(admin, request, spec, pks, back=back, form=form)
    carry_out = _carry_out_at_once if spec.at_once else _carry_out
    first = ids.next_ids(1)[0]
    try:
        with acting_once(request) as act:
            if act.was_sent:
                return HttpResponseRedirect(back)
            outcome = carry_out(admin, request, spec, pks, form.cleaned_data)
            act.is_done = bool(outcome.done)
    except PlatformError as error:
        for each in error.errors or [FieldError("", error.code, error.detail)]:
            form.add_error(
                each.field if each.field in form.fields else None, translate(each.message)
            )
        return _confirm(admin, request, spec, pks, back=back, form=form)
    if outcome.done and spec.verb is not None and spec.is_undone:
        offer_undo(admin, request, spec.verb.name, first, spec.report(outcome))
    return _report(admin, request, spec, outcome, back)


def offer_undo(admin: Any, request: HttpRequest, verb: str, first: int, said: str) -> None:
    """Offer to take back what this request did, whose entries come after `first`, as the verb's."""
    # What is acted on in the archive comes back from there.
    model, *_others = getattr(admin.model, "archive_of", (admin.opts.label,))
    act = {"model": model.lower(), "verb": verb, "said": said, "first": first}
    remembered(request, {**act, "last": ids.next_ids(1)[0], "at": clock.now().isoformat()})


def _carry_out(
    admin: Any,
    request: HttpRequest,
    spec: ReasonAction,
    pks: Sequence[Any],
    values: Mapping[str, Any],
) -> ActionResult:
    rows = _rows(admin, request).in_bulk(list(pks))
    outcome = ActionResult()
    for pk in pks:
        row = rows.get(pk)
        if row is None:
            outcome.skipped.append((str(pk), gettext("There is no such row.")))
            continue
        try:
            acted = spec.act(admin, row, actor=actor_of(request), **values)
        except PlatformError as error:
            is_first = outcome == ActionResult()
            if is_first and any(each.field in values for each in error.errors):
                # The input is wrong, so it would fail for every row.
                raise
            outcome.skipped.append((admin.row_label(row), translate(error.detail)))
            continue
        if acted is False:
            outcome.skipped.append((admin.row_label(row), None))
        else:
            outcome.done += 1
            outcome.results.append(acted)
    return outcome


def _carry_out_at_once(
    admin: Any,
    request: HttpRequest,
    spec: ReasonAction,
    pks: Sequence[Any],
    values: Mapping[str, Any],
) -> ActionResult:
    rows = _rows(admin, request).filter(pk__in=pks)
    unseen = sorted({*pks} - {*rows.values_list("pk", flat=True)})
    outcome: Any = spec.act(admin, rows, actor=actor_of(request), **values)
    skipped = [(str(pk), gettext("There is no such row.")) for pk in unseen]
    return ActionResult(done=outcome.done, skipped=[*outcome.skipped, *skipped])


def remembered(request: HttpRequest, act: dict[str, Any] | None) -> None:
    """Keep the act in the session for its undo; None forgets the one before."""
    if act is not None:
        request.session[ACT] = act
    else:
        request.session.pop(ACT, None)


def _report(
    admin: Any, request: HttpRequest, spec: ReasonAction, outcome: ActionResult, back: str
) -> HttpResponseBase:
    """A message when one line is enough, otherwise a page that lists the skipped rows."""
    done, skipped = outcome.done, len(outcome.skipped)
    nothing = gettext("Nothing was left to do.")
    if not skipped:
        if not (done and spec.is_undone):
            admin.message_user(request, spec.report(outcome), messages.SUCCESS)
        return HttpResponseRedirect(back)
    if done == 0 and skipped == 1:
        admin.message_user(
            request, f"{spec.description}: {outcome.skipped[0][1] or nothing}", messages.ERROR
        )
        return HttpResponseRedirect(back)
    page: HttpResponseBase = admin.page(
        request,
        "admin/reason_report.html",
        title=spec.description,
        counted=spec.report(outcome),
        counted_skipped=ngettext("%d row skipped.", "%d rows skipped.", skipped) % skipped,
        done=done,
        skipped=[
            (shown_text(row, limit=MAX_LABEL), why or nothing) for row, why in outcome.skipped
        ],
        back=back,
    )
    return page
