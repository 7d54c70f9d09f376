"""What params and contexts must carry is declared as JSON Schema 2020-12."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry

from apps.common.errors import FieldError, Invalid
from apps.common.json_faults import told
from apps.common.json_references import check_references
from apps.common.messages import Message as _

MAX_ERRORS = 20


def check_schema(schema: Any, *, field: str = "schema") -> None:
    """Invalid unless the value is a JSON Schema of type object that refers to itself only."""
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise Invalid.field(field, _('It must be a JSON Schema whose "type" is "object".'))
    for reference in _references(schema):
        if not (isinstance(reference, str) and reference.startswith("#")):
            raise Invalid.field(
                field,
                _(
                    "The schema refers to {place}; only references into itself (#/…) work, "
                    "because nothing is fetched.",
                    place=repr(reference)[:200],
                ),
            )
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise Invalid.field(
            _path(field, error), _("Not a JSON Schema 2020-12: {what}", what=told(error))
        ) from error
    try:
        check_references(schema)
    except Invalid as error:
        raise Invalid.field(field, error.detail) from error


def _references(node: Any) -> Iterator[Any]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key in {"$ref", "$dynamicRef"}:
                yield value
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def check_params(
    schema: Mapping[str, Any] | None, params: Mapping[str, Any], *, field: str = "params"
) -> None:
    """Invalid with every error and its path when the params do not fit; no schema fits all."""
    if schema is None:
        return
    errors = faults(compiled(schema), params, field=field)
    if errors:
        raise Invalid(
            _(
                "The {field} do not fit their schema: {what}",
                field=field,
                what=errors[0].message,
            ),
            errors=errors,
        )


def compiled(schema: Mapping[str, Any]) -> Draft202012Validator:
    """The schema made ready for many values."""
    return Draft202012Validator(schema, registry=Registry(), format_checker=FormatChecker())


def faults(
    validator: Draft202012Validator, params: Mapping[str, Any], *, field: str = "params"
) -> list[FieldError]:
    """What keeps the params from fitting, each with its path, at most 20."""
    found = sorted(validator.iter_errors(params), key=lambda e: str(e.json_path))
    return [FieldError(_path(field, error), "invalid", told(error)) for error in found[:MAX_ERRORS]]


def _path(root: str, error: ValidationError | SchemaError) -> str:
    """`params.shop.floor`, `params.items[2]`: where the error is."""
    path = root
    for part in error.absolute_path:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    if error.validator == "required":
        demanded: Any = error.validator_value
        present: Any = error.instance
        missing = [name for name in demanded if name not in present]
        path += f".{missing[0]}" if len(missing) == 1 else ""
    return path
