"""Forms whose writes are made by services: one transaction, one journal entry, named mistakes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.forms.utils import ErrorDict
from django.http import HttpRequest, HttpResponseRedirect

from apps.common.admin.actions import actor_of
from apps.common.admin.base import PlatformModelAdmin
from apps.common.admin.display import translate
from apps.common.errors import FieldError, PlatformError

# A form sent with this name in it is only drawn anew, with all that was typed.
DRAFT = "_draft"


class ServiceForm(forms.ModelForm):  # type: ignore[type-arg]
    """A model form that is valid once a service has written the row.

    What the service refuses stands beside the fields it is about. The admin of a form that is sent
    sets `write`, which returns the row, or None when nothing was to be saved.
    """

    write: ClassVar[Callable[[Any], Any] | None] = None
    row: Any = None

    @property
    def is_draft(self) -> bool:
        """Sent to be drawn anew, such as for another template's fields, and not to be saved."""
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
        # Of an hour that the clocks show twice the text does not tell which; the row does.
        for name, errors in [*self._errors.items()]:
            is_unclear = any(error.code == "ambiguous_timezone" for error in errors.as_data())
            if is_unclear and name not in self.changed_data:
                del self._errors[name]
                self.cleaned_data[name] = self.initial[name]

    def _get_validation_exclusions(self) -> set[str]:
        """Every column: the service judges the row, in words and beside the field.

        Django would name the constraints of the database instead.
        """
        return {field.name for field in self.instance._meta.fields}

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        self.show([e for e in self.rule_errors() if self.field_of(e.field) not in self.errors])
        return cleaned

    def rule_errors(self) -> Sequence[FieldError]:
        """The errors of the rules in the values that could be read, so that all mistakes show
        together: no service is called before all values can be read."""
        return ()

    def show(self, errors: Sequence[FieldError]) -> None:
        """Put every error beside its field, and above the form what belongs to none."""
        for error in errors:
            field = self.field_of(error.field)
            self.add_error(field, translate(error.message if field else error.named))

    def field_of(self, path: str) -> str | None:
        """The form field that shows an error about `path` (`params.count`), if there is one."""
        name = path.partition(".")[0].partition("[")[0]
        return name if name in self.fields else None

    @property
    def changes(self) -> dict[str, Any]:
        """The new values of the fields that were changed in this form."""
        known = self.cleaned_data
        return {name: known[name] for name in self.changed_data if name in known}


class ServicesOwnTransactions(admin.ModelAdmin):  # type: ignore[type-arg]
    """Without Django's transaction around a whole page: services keep theirs short, and repeat them
    when the database gives up on a lock."""

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


class ServiceModelAdmin(PlatformModelAdmin, ServicesOwnTransactions):
    """Every write goes through the services that a subclass calls in `create`, `update`, `remove`.

    They are given only what was changed, and they write the journal in the transaction of the
    change; nothing is logged twice. What a service refuses stands beside the field with the typed
    text kept, and nothing is saved.
    """

    form = ServiceForm
    delete_confirmation_template = "admin/delete_row.html"
    is_removable: ClassVar[bool] = False

    # --- what a subclass says ---------------------------------------------------------------------
    def create(self, request: HttpRequest, form: Any, *, actor: str) -> Any:
        """Make the row from `form.cleaned_data` by a service and return it."""
        raise NotImplementedError(f"{type(self).__name__} must define create()")

    def update(self, request: HttpRequest, row: Any, form: Any, *, version: int, actor: str) -> Any:
        """Write `form.changes` to the row by a service; it raises Conflict on another version."""
        raise NotImplementedError(f"{type(self).__name__} must define update()")

    def remove(self, request: HttpRequest, row: Any, *, actor: str) -> None:
        """Delete the row by a service."""
        raise NotImplementedError(f"{type(self).__name__} must define remove()")

    def blockers(self, row: Any) -> Sequence[str]:
        """Why the row cannot be deleted, each with what to do first; empty when it can."""
        return ()

    # --- permissions and logging ------------------------------------------------------------------
    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.is_removable and super().has_delete_permission(request, obj)

    def get_actions(self, request: HttpRequest) -> Any:
        # It deletes by query, past the service and its journal entry.
        actions = super().get_actions(request)
        actions.pop("delete_selected", None)
        return actions

    def log_addition(self, *_told: Any) -> Any:
        """Nothing: the service has written the journal in the transaction of the change."""

    def log_change(self, *_told: Any) -> Any:
        """Nothing, as above."""

    def log_deletions(self, *_told: Any) -> Any:
        """Nothing, as above."""

    # --- the form ---------------------------------------------------------------------------------
    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        form = super().get_form(request, obj, change=change, **kwargs)
        if request.method != "POST":
            return form
        return type(form.__name__, (form,), {"write": lambda form: self._write(request, obj, form)})

    def _write(self, request: HttpRequest, obj: Any, form: Any) -> Any:
        if obj is None:
            return self.create(request, form, actor=actor_of(request))
        return self.saved(request, obj, form)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        # What Django says and links to afterwards is about this object.
        obj.__dict__.update(form.row.__dict__)

    def saved(self, request: HttpRequest, obj: Any, form: Any) -> Any:
        """The row as it is after `update`; versioned admins check its version before."""
        raise NotImplementedError(f"{type(self).__name__} has no rows that change")

    def response_change(self, request: HttpRequest, obj: Any) -> Any:
        response = super().response_change(request, obj)
        if "_continue" in request.POST:
            # Django goes to the address of the form; a new version of the row has its own.
            return HttpResponseRedirect(self.change_url(obj.pk))
        return response

    # --- deleting ---------------------------------------------------------------------------------
    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """The row and its blockers. Django would read all that refers to it, a million rows say,
        and ask for the right to delete those."""
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
