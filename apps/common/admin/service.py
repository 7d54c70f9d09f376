"""Forms that save through services: one transaction, one journal entry, errors by field.

A form carries the version of the row that it was filled from, and never overwrites a later change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.forms.utils import ErrorDict
from django.http import HttpRequest, HttpResponseRedirect
from django.utils.translation import gettext

from apps.common import ids, sent_forms
from apps.common.admin.actions import actor_of, offer_undo
from apps.common.admin.base import PlatformModelAdmin
from apps.common.admin.conflict import ConflictPage, changed_words
from apps.common.admin.display import translate
from apps.common.admin.durations import take_durations
from apps.common.admin.time_inputs import SplitInstantField
from apps.common.errors import Conflict, FieldError, NotFound, PlatformError
from apps.common.sent_forms import SentBefore

# Fields of the form, which the row does not have.
OWN_FIELDS = frozenset({"version", "once"})
# A form that has this parameter is rendered again with its input, and not saved.
DRAFT = "_draft"


class ServiceForm(forms.ModelForm):  # type: ignore[type-arg]
    """A model form that is valid once a service has written the row.

    Errors of the service are shown beside their fields. The admin sets `write` for a POST; it
    returns the row, or None when nothing was to be saved. `newer` is then the row as it is now, if
    somebody has changed it since the form was filled.
    """

    version = forms.CharField(required=False, widget=forms.HiddenInput)
    once = forms.CharField(required=False, widget=forms.HiddenInput)
    write: ClassVar[Callable[[Any], Any] | None] = None
    row: Any = None
    newer: Any = None
    # Whether the bar says what was done, and offers to take it back.
    is_undone = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        take_durations(self)
        self.initial["version"] = getattr(self.instance, "version", "")
        if self.instance.pk is None:
            self.initial["once"] = sent_forms.new_number()
        else:
            del self.fields["once"]

    def is_filled_from(self, row: Any) -> bool:
        """Whether the row is still the one that the form was filled from."""
        return bool(self.data.get("version", "") == str(row.version))

    @property
    def is_draft(self) -> bool:
        """Whether to render the form again instead of saving, as after a change of template."""
        return self.is_bound and DRAFT in self.data

    def full_clean(self) -> None:
        if not self.is_draft:
            super().full_clean()
            return
        self._errors = ErrorDict()
        self.cleaned_data: dict[str, Any] = {}

    def is_valid(self) -> bool:
        if self.is_draft or not super().is_valid():
            return False
        if self.write is None:
            return True
        try:
            self.row = self.write()
        except PlatformError as error:
            self.show(error.errors or [FieldError("", "", error.detail)])
        return self.row is not None

    def _clean_fields(self) -> None:
        super()._clean_fields()  # type: ignore[misc]
        # In an hour that clocks show twice the text means the first pass; the stored instant may be
        # in the second.
        for name, field in self.fields.items():
            stored = self.initial.get(name) if isinstance(field, SplitInstantField) else None
            is_untouched = name in self.cleaned_data and name not in self.changed_data
            if isinstance(stored, datetime) and is_untouched:
                self.cleaned_data[name] = stored

    def _get_validation_exclusions(self) -> set[str]:
        """Every column: the service validates the row, with better messages than constraints."""
        return {field.name for field in self.instance._meta.fields}

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        self.show([e for e in self.rule_errors() if self.field_of(e.field) not in self.errors])
        return cleaned

    def rule_errors(self) -> Sequence[FieldError]:
        """The errors of the rules in the values that could be read, so that all mistakes show
        together: no service is called before all values can be read."""
        try:
            self.check()
        except PlatformError as refusal:
            return refusal.errors
        return ()

    def check(self) -> None:
        """Raise PlatformError with what the rules say against the values that could be read."""

    def show(self, errors: Sequence[FieldError]) -> None:
        """Add the errors to their fields, or to the form when they belong to none."""
        for error in errors:
            field = self.field_of(error.field)
            self.add_error(field, translate(error.message if field else error.named))

    def field_of(self, path: str) -> str | None:
        """The form field that shows an error about `path` (`params.count`), if there is one."""
        name = path.partition(".")[0].partition("[")[0]
        return name if name in self.fields else None

    @property
    def values(self) -> dict[str, Any]:
        """The values of all fields of the row."""
        return {n: value for n, value in self.cleaned_data.items() if n not in OWN_FIELDS}

    @property
    def changes(self) -> dict[str, Any]:
        """The new values of the fields that were changed in this form."""
        known = self.cleaned_data
        names = [name for name in self.changed_data if name in known and name not in OWN_FIELDS]
        return {name: known[name] for name in names}


class ServicesOwnTransactions(admin.ModelAdmin):  # type: ignore[type-arg]
    """Removes Django's transaction around a whole page: services have short transactions of their
    own, which they repeat after a deadlock."""

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: Any = None,
    ) -> Any:
        return self._changeform_view(request, object_id, form_url, extra_context)  # type: ignore[attr-defined]

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> Any:
        return self._delete_view(request, object_id, extra_context)  # type: ignore[attr-defined]


class ServiceModelAdmin(ConflictPage, PlatformModelAdmin, ServicesOwnTransactions):
    """Every write goes through the services that a subclass calls in `create`, `update`, `remove`.

    They get only what was changed and write the journal in their transaction, so Django's own log
    is off. Errors of a service are shown beside the fields with the input kept. A form that was
    filled from an older version of the row answers 409 with both values of every field that
    differs, and nothing is saved.
    """

    form = ServiceForm
    delete_confirmation_template = "admin/delete_row.html"
    is_removable: ClassVar[bool] = False
    # The verb whose undo takes back what the form changes; "" for none.
    undone_by: ClassVar[str] = ""

    # --- what a subclass defines ------------------------------------------------------------------
    def create(self, request: HttpRequest, form: Any, *, actor: str) -> Any:
        """Make the row from `form.cleaned_data` by a service and return it."""
        raise NotImplementedError(f"{type(self).__name__} must define create()")

    def update(self, request: HttpRequest, row: Any, form: Any, *, version: int, actor: str) -> Any:
        """Write `form.changes` to the row by a service; it raises Conflict on another version."""
        raise NotImplementedError(f"{type(self).__name__} must define update()")

    def current(self, obj: Any) -> Any:
        """The row as it is now, None when it is gone."""
        return self.model._default_manager.filter(pk=obj.pk).first()

    def remove(self, request: HttpRequest, row: Any, *, actor: str) -> None:
        """Delete the row by a service."""
        raise NotImplementedError(f"{type(self).__name__} must define remove()")

    def blockers(self, row: Any) -> Sequence[str]:
        """Why the row cannot be deleted, each with what to do about it; empty when it can."""
        return ()

    # --- permissions and logging ------------------------------------------------------------------
    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.is_removable and super().has_delete_permission(request, obj)

    def list_actions(self, request: HttpRequest, found: dict[str, Any]) -> dict[str, Any]:
        # It deletes without the service and its journal entry.
        return {name: action for name, action in found.items() if name != "delete_selected"}

    def log_addition(self, *_args: Any) -> Any:
        """Nothing: the service has written the journal."""

    def log_change(self, *_args: Any) -> Any:
        """Nothing, as above."""

    def log_deletions(self, *_args: Any) -> Any:
        """Nothing, as above."""

    # --- the form ---------------------------------------------------------------------------------
    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [name for name in super().get_fields(request, obj) if name not in OWN_FIELDS]

    def form_knows(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """The attributes of the form's class for this person; `obj` is None for a new row."""
        return {}

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        form = super().get_form(request, obj, change=change, **kwargs)
        known = self.form_knows(request, obj)
        if request.method == "POST":
            known["write"] = lambda form: self._write(request, obj, form)
        return type(form.__name__, (form,), known)

    def _write(self, request: HttpRequest, obj: Any, form: Any) -> Any:
        if obj is None:
            return self._create_once(request, form)
        row = self.current(obj)
        if row is None:
            raise NotFound(gettext("It was deleted by somebody else meanwhile."))
        if form.is_filled_from(row):
            try:
                return self._update(request, row, form)
            except Conflict:
                row = self.current(obj)
                if row is None or form.is_filled_from(row):
                    raise
        form.newer = row
        return None

    def _update(self, request: HttpRequest, row: Any, form: Any) -> Any:
        first, before = ids.next_ids(1)[0], {**row.__dict__}
        made = self.update(request, row, form, version=row.version, actor=actor_of(request))
        if self.undone_by and form.changes and self.saves(request):
            words = changed_words(form, before) or gettext("It was changed.")
            offer_undo(self, request, self.undone_by, first, f"{self.row_label(made)}: {words}")
            form.is_undone = True
        return made

    def saves(self, request: HttpRequest) -> bool:
        """Whether the form is to be saved, and not only tried."""
        return True

    def _create_once(self, request: HttpRequest, form: Any) -> Any:
        """The row that the form makes, or has made when it was sent before."""
        create = partial(self.create, request, form, actor=actor_of(request))
        number = sent_forms.number_of(request.POST.get("once", ""))
        if number is None or not self.saves(request):
            return create()
        try:
            return sent_forms.make_once(number, create)
        except SentBefore as before:
            row = self.model._default_manager.filter(pk=before.row).first()
            if row is None:
                raise
            return row

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        # Django uses this object for its message and links.
        obj.__dict__.update(form.row.__dict__)
        obj.is_said = form.is_undone

    def response_change(self, request: HttpRequest, obj: Any) -> Any:
        response = super().response_change(request, obj)
        if obj.is_said:
            said: Any = messages.get_messages(request)
            said._queued_messages.pop()
        if "_continue" in request.POST:
            # Django would go to the address of the form; a new version of the row has its own.
            return HttpResponseRedirect(self.change_url(obj.pk))
        return response

    # --- deleting ---------------------------------------------------------------------------------
    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """The row and its blockers. Django would read all rows that refer to it, maybe a million,
        and require the permission to delete them."""
        blockers = [sentence for row in objs for sentence in self.blockers(row)]
        names = {str(self.opts.verbose_name_plural): len(objs)}
        return [str(row) for row in objs], names, set(), blockers

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self.remove(request, obj, actor=actor_of(request))

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> Any:
        try:
            return super().delete_view(request, object_id, extra_context)
        except PlatformError as refusal:
            self.message_user(request, translate(refusal.detail), messages.ERROR)
            return HttpResponseRedirect(self.change_url(object_id))
