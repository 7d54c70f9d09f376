"""A form made from a JSON Schema: one field for each property, and the raw JSON for the rest.

A property without a matching field is a JSON text box, and so is a schema without properties. A
field that was not edited keeps its stored value exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from django import forms
from django.utils.functional import Promise
from django.utils.html import escape
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldBooleanSwitchWidget

from apps.common.admin.display import translate
from apps.common.admin.json_text import JsonTextField
from apps.common.admin.schema_fields import (
    LinesFormField,
    Path,
    Schema,
    SchemaField,
    Secret,
    TextFormField,
    fields_for,
    fits,
)
from apps.common.admin.service import DRAFT, ServiceForm
from apps.common.errors import FieldError, Invalid
from apps.common.json.schema import check_params
from apps.common.json_rules import canonical
from apps.common.masking import Kept, redact, require_hidden

RAW = "raw"
USES_RAW = "uses_raw"
PARAMS, PARAMS_AS_JSON = _("Params"), _("Params as JSON")

# The attributes of the field that selects the schema: another selection has other params, so that
# part of the page is rendered again with the input.
REDRAW = {
    "hx-post": "",
    "hx-include": "closest form",
    "hx-vals": f'{{"{DRAFT}": "1"}}',
    "hx-select": "#params-part",
    "hx-target": "#params-part",
    "hx-swap": "outerHTML",
}


class SchemaForm(forms.Form):
    """The params of one schema as a form; `params` is what was entered, once the form is valid.

    Drawn as fields, or as raw JSON where `uses_raw` is switched on: by the operator, or because the
    stored params hold what no field shows. `check` validates the params as a whole and raises
    Invalid, whose errors (`params.count`) are shown beside their fields.
    """

    uses_raw = forms.BooleanField(
        label=_("Use the raw JSON"),
        required=False,
        widget=UnfoldBooleanSwitchWidget(),
        help_text=_("The JSON below counts then, and the fields above do not."),
    )

    def __init__(
        self,
        schema: Schema | None,
        *,
        stored: Mapping[str, Any] | None,
        check: Callable[[dict[str, Any]], None],
        data: Any = None,
        is_draft: bool = False,
        prefix: str = "params",
        title: str | Promise = PARAMS,
        raw_title: str | Promise = PARAMS_AS_JSON,
    ) -> None:
        """`stored` is None for a new row, whose fields start with the schema's defaults. The titles
        are those of this part of the page and of its box of JSON.

        A draft shows what `data` holds of these fields and validates nothing.
        """
        super().__init__(None if is_draft else data, prefix=prefix)
        self.title = title
        self.stored = dict(stored or {})
        self.masked = redact(self.stored)
        self.check = check
        self.parts = fields_for(schema)
        self.params: dict[str, Any] = self.stored
        for part in self.parts:
            self._add(part, is_new=stored is None)
        shown = _defaults(self.parts) if stored is None else self.stored
        self.fields[RAW] = JsonTextField(
            label=raw_title, required=False, redacts=True, stored=shown
        )
        self.initial[RAW] = shown
        self.initial[USES_RAW] = any(map(self._is_bared, self.parts)) or (
            canonical(covered(self.stored, schema)) != canonical(self.stored)
        )
        if not self.parts:
            del self.fields[USES_RAW]
        if is_draft:
            self._take_draft(data)

    def _take_draft(self, data: Any) -> None:
        for name, field in self.fields.items():
            key = self.add_prefix(name)
            if not field.widget.value_omitted_from_data(data, {}, key):
                typed = field.widget.value_from_datadict(data, {}, key)
                self.initial[name] = field.bound_data(typed, None)

    def _add(self, part: SchemaField, *, is_new: bool) -> None:
        field = part.field
        value = _value_at(self.stored, part.path)
        is_stored = _is_at(self.stored, part.path)
        if isinstance(field, Secret) and is_stored:
            field.required = False
            field.help_text += escape(gettext(" Leave it empty to keep what is stored."))
        if isinstance(field, JsonTextField | TextFormField | LinesFormField):
            field.stored = part.default if is_new else value
        if isinstance(field, TextFormField) and isinstance(value, str) and "\n" in value:
            field.widget = UnfoldAdminTextareaWidget({"rows": 3})
        self.fields[part.name] = field
        # Values that the field cannot show are in the raw JSON, with their secrets masked.
        shown = value if fits(field, value) and not self._is_bared(part) else None
        self.initial[part.name] = part.default if is_new else shown

    def _is_bared(self, part: SchemaField) -> bool:
        """Whether the field would show what is a secret by what stands before it."""
        if isinstance(part.field, Secret) or not _is_at(self.stored, part.path):
            return False
        alone = redact(_value_at(self.stored, part.path))
        return canonical(alone) != canonical(_value_at(self.masked, part.path))

    # --- drawing ----------------------------------------------------------------------------------
    @property
    def groups(self) -> list[tuple[str, list[forms.BoundField]]]:
        """The fields in their order, those of a nested object together under its title."""
        groups: list[tuple[str, list[forms.BoundField]]] = []
        for part in self.parts:
            if not groups or groups[-1][0] != part.group:
                groups.append((part.group, []))
            groups[-1][1].append(self[part.name])
        return groups

    @property
    def switch(self) -> forms.BoundField | None:
        return self[USES_RAW] if self.parts else None

    @property
    def raw(self) -> forms.BoundField:
        return self[RAW]

    @property
    def is_raw(self) -> bool:
        """Whether the raw JSON is used: chosen, or the only field."""
        return not self.parts or bool(self[USES_RAW].value())

    # --- reading ----------------------------------------------------------------------------------
    def full_clean(self) -> None:
        # Only one of the two is used; errors in the other do not matter.
        counted = {RAW, USES_RAW} if self.is_raw else self.fields.keys() - {RAW}
        everything = self.fields
        self.fields = {name: field for name, field in everything.items() if name in counted}
        try:
            super().full_clean()
        finally:
            self.fields = everything

    def clean(self) -> dict[str, Any]:
        if self.errors:
            return self.cleaned_data
        try:
            if self.is_raw:
                self.params = self.cleaned_data.get(RAW) or {}
            else:
                self.params = assembled = self._assembled()
                require_hidden(assembled, assembled.shown, field="params")
            self.check(self.params)
        except Invalid as refusal:
            self.show(refusal.errors or [FieldError("", "", refusal.detail)])
        return self.cleaned_data

    def _assembled(self) -> Kept:
        params: dict[str, Any] = {}
        shown: dict[str, Any] = {}
        for part in self.parts:
            if _is_at(self.stored, part.path) and part.name not in self.changed_data:
                _put(params, part.path, _value_at(self.stored, part.path))
                _put(shown, part.path, _value_at(self.masked, part.path))
            elif (value := self.cleaned_data.get(part.name)) is not None:
                _put(params, part.path, value)
                _put(shown, part.path, value)
        return Kept(params, shown)

    def show(self, errors: Sequence[FieldError]) -> None:
        """Add each error about `params…` to its field, and others to the form."""
        names = {".".join(part.path): part.name for part in self.parts}
        for error in errors:
            path = error.field.partition("[")[0].removeprefix("params").removeprefix(".")
            while path and path not in names:
                path = path.rpartition(".")[0]
            name = RAW if self.is_raw else names.get(path)
            self.add_error(name, translate(error.message))


class ParamsForm(ServiceForm):
    """The form of a row that has JSON in the column `holder`: `params_form` asks for it by a
    schema, which the choice in the field `chooser` decides.

    It is None for people who may not see what is stored; the row then keeps that.
    """

    holder: ClassVar[str] = "params"
    chooser: ClassVar[str] = "template"
    titles: ClassVar[tuple[str | Promise, str | Promise]] = PARAMS, PARAMS_AS_JSON
    errors_below: ClassVar[str | Promise] = _("The params are not right yet; see below.")
    misfit: ClassVar[str | Promise] = _(
        "The stored params do not fit this template; ask somebody who sees them."
    )
    params_form: SchemaForm | None = None

    def form_of(self, schema: Schema | None, stored: Mapping[str, Any] | None) -> SchemaForm:
        """The form of the schema; `stored` is None for what begins with its defaults."""
        title, raw_title = self.titles
        return SchemaForm(
            schema,
            stored=stored,
            check=lambda params: check_params(schema, params),
            data=self.data if self.is_bound else None,
            is_draft=self.is_draft,
            title=title,
            raw_title=raw_title,
        )

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.params_form is not None and not self.params_form.is_valid():
            self.add_error(None, str(self.errors_below))
        return cleaned

    def is_of_params(self, error: FieldError) -> bool:
        """Whether the error is of the form of the params."""
        return error.field.partition(".")[0].partition("[")[0] == self.holder

    def show(self, errors: Sequence[FieldError]) -> None:
        others = [error for error in errors if not self.is_of_params(error)]
        about = [
            replace(error, field=error.field.replace(self.holder, "params", 1))
            for error in errors
            if self.is_of_params(error)
        ]
        if about and self.params_form is None:
            # The messages are about values that this person may not see.
            others.append(FieldError(self.chooser, "invalid", str(self.misfit)))
        elif about and self.params_form is not None:
            # Errors can only be added to a form that has been validated.
            self.params_form.full_clean()
            self.params_form.show(about)
        super().show(others)

    def with_params(self, changes: dict[str, Any]) -> dict[str, Any]:
        """The changes, and the JSON if it is another one."""
        if self.params_form is None:
            return changes
        params = self.params_form.params
        stored = getattr(self.instance, self.holder)
        is_new = self.instance.pk is None
        is_other = is_new or canonical(params) != canonical(stored)
        return {**changes, self.holder: params} if is_other else changes


def _defaults(parts: Sequence[SchemaField]) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for part in parts:
        if part.default is not None:
            _put(params, part.path, part.default)
    return params


def covered(params: Mapping[str, Any], schema: Schema | None) -> dict[str, Any]:
    """The part of the params that the fields of a schema show."""
    kept: dict[str, Any] = {}
    for part in fields_for(schema):
        value = _value_at(params, part.path)
        if _is_at(params, part.path) and fits(part.field, value):
            _put(kept, part.path, value)
    return kept


def _is_at(params: Any, path: Path) -> bool:
    for step in path:
        if not isinstance(params, Mapping) or step not in params:
            return False
        params = params[step]
    return True


def _value_at(params: Any, path: Path) -> Any:
    for step in path:
        params = params.get(step) if isinstance(params, Mapping) else None
    return params


def _put(params: dict[str, Any], path: Path, value: Any) -> None:
    for step in path[:-1]:
        params = params.setdefault(step, {})
    params[path[-1]] = value
