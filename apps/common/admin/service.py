"""Forms that save through services: one transaction, one journal entry, errors by field."""

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

# A form that has this parameter is rendered again with its input, and not saved.
DRAFT = "_draft"


class ServiceForm(forms.ModelForm):  # type: ignore[type-arg]
    """A model form that is valid once a service has written the row.

    Errors of the service are shown beside their fields. The admin sets `write` for a POST; it
    returns the row, or None when nothing was to be saved.
    """

    write: ClassVar[Callable[[Any], Any] | None] = None
    row: Any = None

    @property
    def is_draft(self) -> bool:
        """Sent to be rendered again, as with another template's fields, and not to be saved."""
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
        # The text of an hour that clocks show twice is ambiguous; the row is not.
        for name, errors in [*self._errors.items()]:
            is_unclear = any(error.code == "ambiguous_timezone" for error in errors.as_data())
            if is_unclear and name not in self.changed_data:
                del self._errors[name]
                self.cleaned_data[name] = self.initial[name]

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
        return ()

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
    def changes(self) -> dict[str, Any]:
        """The new values of the fields that were changed in this form."""
        known = self.cleaned_data
        return {name: known[name] for name in self.changed_data if name in known}


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


class ServiceModelAdmin(PlatformModelAdmin, ServicesOwnTransactions):
    """Every write goes through the services that a subclass calls in `create`, `update`, `remove`.

    They get only what was changed and write the journal in their transaction, so Django's own log
    is off. Errors of a service are shown beside the fields with the input kept.
    """

    form = ServiceForm
    delete_confirmation_template = "admin/delete_row.html"
    is_removable: ClassVar[bool] = False

    # --- what a subclass defines ------------------------------------------------------------------
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
        """Why the row cannot be deleted, each with what to do about it; empty when it can."""
        return ()

    # --- permissions and logging ------------------------------------------------------------------
    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.is_removable and super().has_delete_permission(request, obj)

    def get_actions(self, request: HttpRequest) -> Any:
        # It would delete without the service and its journal entry.
        actions = super().get_actions(request)
        actions.pop("delete_selected", None)
        return actions

    def log_addition(self, *_args: Any) -> Any:
        """Nothing: the service has written the journal."""

    def log_change(self, *_args: Any) -> Any:
        """Nothing, as above."""

    def log_deletions(self, *_args: Any) -> Any:
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
        # Django uses this object for its message and links.
        obj.__dict__.update(form.row.__dict__)

    def saved(self, request: HttpRequest, obj: Any, form: Any) -> Any:
        """The row as it is after `update`; versioned admins check its version before."""
        raise NotImplementedError(f"{type(self).__name__} has no rows that change")

    def response_change(self, request: HttpRequest, obj: Any) -> Any:
        response = super().response_change(request, obj)
        if "_continue" in request.POST:
            # Django would go to the address of the form; a new version of the row has its own.
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
