"""What params and contexts must carry is declared as JSON Schema 2020-12."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry

from apps.common import json_patterns
from apps.common.errors import FieldError, Invalid
from apps.common.json_references import check_references
from apps.common.messages import Message
from apps.common.messages import Message as _

MAX_ERRORS = 20
MAX_SHOWN = 200

# By keyword; `wanted` is the value of the keyword. Rare keywords keep jsonschema's own text.
_MESSAGES = {
    "additionalProperties": _("Unknown: {wanted}"),
    "anyOf": _("{value} fits none of the allowed schemas"),
    "const": _("{value} is not {wanted}"),
    "dependentRequired": _("These properties must be given together: {wanted}"),
    "enum": _("{value} is not one of {wanted}"),
    "exclusiveMaximum": _("{value} is not less than {wanted}"),
    "exclusiveMinimum": _("{value} is not greater than {wanted}"),
    "format": _("{value} does not have the format {wanted}"),
    "maxItems": _("{value} has more than {wanted} items"),
    "maxLength": _("{value} is longer than {wanted} characters"),
    "maxProperties": _("{value} has more than {wanted} properties"),
    "maximum": _("{value} is greater than {wanted}"),
    "minItems": _("{value} has fewer than {wanted} items"),
    "minLength": _("{value} is shorter than {wanted} characters"),
    "minProperties": _("{value} has fewer than {wanted} properties"),
    "minimum": _("{value} is less than {wanted}"),
    "multipleOf": _("{value} is not a multiple of {wanted}"),
    "not": _("{value} fits a schema that is not allowed"),
    "oneOf": _("{value} must fit exactly one of the allowed schemas"),
    "pattern": _("{value} does not match {wanted}"),
    "required": _("Missing: {wanted}"),
    "type": _("{value} is not of type {wanted}"),
    "uniqueItems": _("{value} has items that are equal"),
}


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
        Draft202012Validator.check_schema(schema, format_checker=json_patterns.META_FORMATS)
    except SchemaError as error:
        raise Invalid.field(
            _path(field, error), _("Not a JSON Schema 2020-12: {what}", what=_message(error))
        ) from error
    try:
        check_references(schema)
    except Invalid as error:
        raise Invalid.field(field, error.detail) from error


def _references(node: Any) -> Iterator[Any]:
    """The values of all references, at any depth."""
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
    return json_patterns.Validator(  # type: ignore[no-any-return]
        schema, registry=Registry(), format_checker=json_patterns.FORMATS
    )


def faults(
    validator: Draft202012Validator, params: Mapping[str, Any], *, field: str = "params"
) -> list[FieldError]:
    """Why the params do not fit, each error with its path, at most 20."""
    found = sorted(validator.iter_errors(params), key=lambda e: str(e.json_path))
    errors = [FieldError(_path(field, error), "invalid", _message(error)) for error in found]
    # Each missing property is an error of its own, with the same message.
    return [*dict.fromkeys(errors)][:MAX_ERRORS]


def _message(error: ValidationError | SchemaError) -> str:
    template = _MESSAGES.get(str(error.validator))
    if template is None:
        return _cut(error.message)
    wanted = _wanted(error)
    return Message(
        template,
        value=_shown(error.instance),
        wanted=_shown(*wanted) if isinstance(wanted, list) else _shown(wanted),
    )


def _wanted(error: ValidationError | SchemaError) -> Any:
    schema: Any = error.schema
    instance: Any = error.instance
    if error.validator == "required":
        return _missing(error)
    if error.validator == "additionalProperties":
        return json_patterns.unknown(schema, instance)
    return error.validator_value


def _missing(error: ValidationError | SchemaError) -> list[str]:
    required: Any = error.validator_value
    instance: Any = error.instance
    return [name for name in required if name not in instance]


def _shown(*values: Any) -> str:
    return _cut(", ".join(json.dumps(each, ensure_ascii=False, default=str) for each in values))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


def _path(root: str, error: ValidationError | SchemaError) -> str:
    """The path of the error: `params.shop.floor`, `params.items[2]`."""
    path = root
    for part in error.absolute_path:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    if error.validator == "required" and len(missing := _missing(error)) == 1:
        path += f".{missing[0]}"
    return path
