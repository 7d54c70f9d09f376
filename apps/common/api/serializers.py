"""Strict input: unknown fields and values of another type are errors, each with its path."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from django.http import QueryDict
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ValidationError

from apps.common.api.serializer_fields import MAX_NAMED, MISSING, NULL, StrictField, Texts
from apps.common.errors import field_errors, refusal
from apps.common.masking import quote, redact


class StrictSerializer(serializers.Serializer[Any]):
    """A body, a query or an answer; unknown fields are errors.

    Views call `check`; fields are those of serializer_fields, and nested StrictSerializers.
    """

    # As a field of another one.
    default_error_messages: ClassVar[dict[str, Any]] = {"required": MISSING, "null": NULL}
    # A body that has one of several shapes has the fields of all; which go together is for
    # `to_internal_value` or the view to check.
    shapes: ClassVar[tuple[type[StrictSerializer], ...]] = ()
    # A JSON Schema of fields that do not go together, as the view checks. Generators of clients
    # read `not` over, where of `anyOf` beside fields some make a class without these.
    never: ClassVar[Mapping[str, Any]] = {}
    # Whether a field that is left out stays as it is, as in PATCH.
    is_changes: ClassVar[bool] = False
    # The fields that PATCH needs, too.
    always: ClassVar[frozenset[str]] = frozenset()
    _ready: ClassVar[dict[tuple[type, bool], StrictSerializer]] = {}

    @classmethod
    def check(cls, data: Any, *, partial: bool = False) -> dict[str, Any]:
        """The checked values with defaults filled in; with `partial` only those that were given.

        Raises Invalid, or the error of the one code that all wrong fields share, naming each.
        """
        try:
            values: dict[str, Any] = cls._instance(partial).run_validation(data)
        except ValidationError as error:
            raise refusal(field_errors(error.detail)) from error
        return values

    @classmethod
    def check_query(cls, query: QueryDict) -> dict[str, Any]:
        """`check` for query parameters; each may be given once, unless it is `Texts`."""
        fields = cls._instance(False).fields
        data: dict[str, Any] = {}
        twice: dict[str, Any] = {}
        for name, texts in query.lists():
            field = fields.get(name)
            if isinstance(field, Texts):
                data[name] = texts
                continue
            data[name] = field.from_text(texts[0]) if isinstance(field, StrictField) else texts[0]
            if len(texts) > 1:
                twice[name] = [f"{len(texts)} values; give this parameter once."]
        if twice:
            raise refusal(field_errors(twice))
        return cls.check(data)

    @classmethod
    def _instance(cls, partial: bool) -> Self:
        # Copying the declared fields is most of the cost of a serializer. Checking does not change
        # them, so all threads share one instance.
        ready = StrictSerializer._ready.get((cls, partial))
        if ready is None:
            ready = StrictSerializer._ready[cls, partial] = cls(partial=partial)
        return ready  # type: ignore[return-value]

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        for shape in self.shapes:
            for name, field in shape().get_fields().items():
                field.required = False
                fields[name] = field
        return fields

    def run_validation(self, data: Any = serializers.empty) -> Any:
        # DRF's further steps are left out: no serializer here has validators of its own.
        is_empty, data = self.validate_empty_values(data)
        return data if is_empty else self.to_internal_value(data)

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, Mapping):
            raise ValidationError(f"{quote(data)} is not a JSON object; write {{…}}.")
        # The plain dict: each access through the BindingDict costs two calls.
        fields, missing = self._settable
        wrong: dict[str, Any] = {}
        values: dict[str, Any] = {}
        # DRF does much more for each field; fields here have no `source` and no `validate_…`.
        wanted = self.always if getattr(self.root, "partial", False) else missing.keys()
        for name in wanted - data.keys():
            field = missing[name]
            if field.required:
                said = field.error_messages["required"]
                wrong[name] = [ErrorDetail(said, code="required")]
            else:
                values[name] = field.get_default()
        for name, value in data.items():
            if len(wrong) >= MAX_NAMED:
                break
            if name not in fields:
                wrong[name] = [self._unknown(name)]
                continue
            try:
                values[name] = fields[name].run_validation(value)
            except ValidationError as error:
                wrong[name] = error.detail
        if wrong:
            # Unknown ones first, then in the order of the fields.
            names = list(fields)
            where = {name: names.index(name) for name in wrong if name in fields}
            raise ValidationError(
                {n: wrong[n] for n in sorted(wrong, key=lambda n: where.get(n, -1))}
            )
        return values

    @functools.cached_property
    def _settable(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The fields that may be set, and those to look after when they are missing."""
        fields = {name: field for name, field in self.fields.items() if not field.read_only}
        missing = {
            name: field
            for name, field in fields.items()
            if field.required or field.default is not serializers.empty
        }
        return fields, missing

    def _unknown(self, name: str) -> ErrorDetail:
        known = [key for key, field in self.fields.items() if not field.read_only]
        if name in self.fields:
            hint = "the server sets it; leave it out"
        elif near := difflib.get_close_matches(name, known, n=1):
            hint = f"did you mean {near[0]!r}?"
        else:
            hint = f"known are: {', '.join(known)}" if known else "none is taken here"
        return ErrorDetail(f"There is no field {quote(name)}; {hint}", code="unknown_field")


# The shape of an answer: documented by OpenAPI, made by `of(row)`. No docstring, because OpenAPI
# would show it for every answer.
class Answer(serializers.Serializer[Any]):
    # The fields that may hold secrets.
    payload: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def of(cls, row: Any, *, masks: bool = False) -> dict[str, Any]:
        """The row as JSON values; with `masks` its secrets are masked, as in admin."""
        shape: dict[str, Any] = _answer(cls).to_representation(row)
        if masks:
            shape |= {name: redact(shape[name]) for name in cls.payload}
        return shape


class UndoableOut(Answer):
    undo = serializers.CharField(
        allow_null=True,
        help_text="For ten minutes `POST /undo/{undo}/` takes this back. Null: it cannot be.",
    )


@functools.cache
def _answer(shape: type[Answer]) -> Answer:
    # Copying the declared fields costs more than representing a row, which changes none of them.
    return shape()
