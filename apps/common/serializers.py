"""Strict input: unknown fields and values of another type are errors, each with its path."""

from __future__ import annotations

import difflib
import functools
import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, Self

from django.core.validators import ProhibitNullCharactersValidator
from django.http import QueryDict
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ValidationError
from rest_framework.validators import ProhibitSurrogateCharactersValidator

from apps.common.errors import PlatformError, field_errors, refusal
from apps.common.fields import KEY_PATTERN
from apps.common.json_rules import INTEGERS, check_json, check_text
from apps.common.masking import kind_of, quote, redact
from apps.common.messages import wire_time

_INSTANT = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_KEY = re.compile(KEY_PATTERN)
# With so many errors no more are looked for: a body may be wrong in each of its parts.
MAX_NAMED = 100
MISSING = "This field is missing; it has no default."
SAY_WHY = "Say why; the journal keeps it."
_TEXT_VALIDATORS = (ProhibitNullCharactersValidator, ProhibitSurrogateCharactersValidator)
_DECIMAL = re.compile(r"-?\d{1,19}", re.ASCII)


class _Strict(serializers.Field[Any, Any, Any, Any]):
    """The base of the fields below: error messages, and values from query text."""

    default_error_messages = {
        "required": MISSING,
        "null": "null is not taken here; give a value.",
    }

    def from_text(self, text: str) -> Any:
        """The value that a query parameter means, before it is checked like any other."""
        return text

    @staticmethod
    def refuse(message: str, code: str = "invalid") -> ValidationError:
        return ValidationError(message, code=code)


class Text(_Strict, serializers.CharField):
    """A string, kept exactly as written; nothing is coerced or trimmed.

    `max_length` counts characters. Without `allow_blank` it needs one visible character.
    """

    default_error_messages = {
        "max_length": "%(show_value)d characters; at most {max_length} are kept.",
        "blank": "A blank text says nothing; write something or leave the field out.",
    }

    def __init__(self, *, max_length: int, **kwargs: Any) -> None:
        super().__init__(max_length=max_length, trim_whitespace=False, **kwargs)
        # check_text does the same with the code `bad_text`.
        self.validators = [v for v in self.validators if not isinstance(v, _TEXT_VALIDATORS)]

    def run_validation(self, data: Any = serializers.empty) -> Any:
        # CharField's own version coerces to text first.
        return serializers.Field.run_validation(self, data)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            raise self.refuse(f"{quote(data)} is not a string; write it in quotes.")
        if not self.allow_blank and not data.strip():
            raise self.refuse(str(self.error_messages["blank"]))
        try:
            check_text(data)
        except PlatformError as error:
            raise self.refuse(error.detail, error.code) from error
        return data


class Reason(Text):
    """Why somebody does it."""

    default_error_messages = {"required": SAY_WHY, "blank": SAY_WHY}


class Name(Text):
    """A key as `KeyField` stores it: letters, digits and `_ . : @ / + -`, no blanks."""

    def to_internal_value(self, data: Any) -> str:
        name = super().to_internal_value(data)
        if not _KEY.fullmatch(name):
            raise self.refuse(f"{quote(name)} is no name: use letters, digits and _ . : @ / + -")
        return name


class Integer(_Strict, serializers.IntegerField):
    """A JSON integer from `min_value` to `max_value`; no 5.0, "5" or true."""

    default_error_messages = {
        "min_value": "%(show_value)s is too small; write {min_value} or more.",
        "max_value": "%(show_value)s is too large; write {max_value} or less.",
    }

    def __init__(self, *, min_value: int, max_value: int, **kwargs: Any) -> None:
        super().__init__(min_value=min_value, max_value=max_value, **kwargs)

    def from_text(self, text: str) -> Any:
        return int(text) if _DECIMAL.fullmatch(text) else text

    def to_internal_value(self, data: Any) -> int:
        if type(data) is int:
            return data
        raise self.refuse(
            f"{quote(data)} is not an integer; write one from {self.min_value} to {self.max_value}."
        )


class Number(_Strict, serializers.FloatField):
    """A JSON number from `min_value` to `max_value`, with decimals or without; no "5" or true."""

    default_error_messages = Integer.default_error_messages

    def __init__(self, *, min_value: float, max_value: float, **kwargs: Any) -> None:
        super().__init__(min_value=min_value, max_value=max_value, **kwargs)

    def to_internal_value(self, data: Any) -> float:
        # NaN is neither too small nor too large.
        if type(data) is int or (type(data) is float and data == data):
            return data
        raise self.refuse(
            f"{quote(data)} is not a number; write one from {self.min_value} to {self.max_value}."
        )


class Boolean(_Strict, serializers.BooleanField):
    """true or false; no 1, "yes" or null."""

    def from_text(self, text: str) -> Any:
        return {"true": True, "false": False}.get(text, text)

    def to_internal_value(self, data: Any) -> bool:
        if data is True or data is False:
            return data
        raise self.refuse(f"{quote(data)} is not a boolean; write true or false.")


class Choice(_Strict, serializers.ChoiceField):
    """One of the given words. `choices`: words, or pairs of word and label."""

    def to_internal_value(self, data: Any) -> str:
        if isinstance(data, str) and data in self.choices:
            return data
        words = ", ".join(str(word) for word in self.choices)
        raise self.refuse(f"{quote(data)} is none of: {words}.")


class Instant(_Strict, serializers.DateTimeField):
    """An RFC 3339 time with seconds and offset, from 1970 to 9999 → aware datetime in UTC.

    More than six decimals of a second are cut off, because no database here keeps them.
    """

    def to_internal_value(self, data: Any) -> datetime:
        match = _INSTANT.fullmatch(data) if isinstance(data, str) else None
        if match is None:
            raise self.refuse(
                f"{quote(data)} is not a time with offset; write 2026-11-20T09:30:00Z."
            )
        day, time, decimals, offset = match.groups()
        try:
            local = datetime.fromisoformat(f"{day}T{time}{offset.upper()}")
            at = local.astimezone(UTC).replace(microsecond=int((decimals or "0").ljust(6, "0")[:6]))
        except (ValueError, OverflowError) as error:
            raise self.refuse(f"{quote(data)} names no moment that exists: {error}.") from error
        if at.year < 1970:
            raise self.refuse(f"{quote(data)} is before 1970; write a later time.")
        return at

    def to_representation(self, value: Any) -> str:
        return wire_time(value)


class JsonObject(_Strict, serializers.DictField):
    """A JSON object of any content within the limits of `check_json`."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise self.refuse(f"{kind_of(data)} is not a JSON object; write {{…}}.")
        try:
            check_json(data)
        except PlatformError as error:
            raise self.refuse(error.detail, error.code) from error
        return data


class Json(_Strict, serializers.JSONField):
    """Any JSON value; the rules that keep it check it."""

    def to_internal_value(self, data: Any) -> Any:
        return data


class _List(_Strict, serializers.ListField):
    """`example` is how one is written."""

    example = '["a","b"]'

    def to_internal_value(self, data: Any) -> list[Any]:
        if not isinstance(data, list):
            raise self.refuse(f"{quote(data)} is not a list; write {self.example}.")
        items: list[Any] = super().to_internal_value(data)
        return items

    def run_child_validation(self, data: list[Any]) -> list[Any]:
        """The items as the child reads them; DRF's own version reads on whatever it has found."""
        items: list[Any] = []
        wrong: Any = {}
        named = 0
        for position, item in enumerate(data):
            try:
                items.append(self.child.run_validation(item))
            except ValidationError as error:
                wrong[position] = error.detail
                named += len(error.detail)
            if named >= MAX_NAMED:
                break
        if wrong:
            raise ValidationError(wrong)
        return items


class Names(_List):
    """A list of at most `max_items` names, each as `Name`; a name given twice is refused."""

    default_error_messages = {"max_length": "More than {max_length} names; send fewer at a time."}

    def __init__(self, *, max_items: int, max_length: int = 255, **kwargs: Any) -> None:
        super().__init__(child=Name(max_length=max_length), max_length=max_items, **kwargs)

    def to_internal_value(self, data: Any) -> list[str]:
        names = super().to_internal_value(data)
        if len(set(names)) != len(names):
            twice, _count = Counter(names).most_common(1)[0]
            raise self.refuse(f"{quote(twice)} occurs twice in the list; name it once.")
        return names


class Texts(_List):
    """A list of at most `max_items` texts, each as `Text`; in a query the parameter is repeated."""

    default_error_messages = {"max_length": "More than {max_length} texts; send fewer at a time."}

    def __init__(self, *, max_items: int, max_length: int, **kwargs: Any) -> None:
        super().__init__(child=Text(max_length=max_length), max_length=max_items, **kwargs)


class Items(_List):
    """A list of 1 to `max_items` objects, each checked by `child`."""

    default_error_messages = {
        "max_length": "More than {max_length} items; send fewer at a time.",
        "min_length": "An empty list is no work; leave it out or fill it.",
    }
    example = "[{…}, {…}]"

    def __init__(self, *, child: StrictSerializer, max_items: int, **kwargs: Any) -> None:
        super().__init__(child=child, min_length=1, max_length=max_items, **kwargs)


@extend_schema_field({"type": "string", "pattern": "^[0-9]{1,19}$"})
class DecimalId(_Strict):
    """The id of a dispatch or job, on the wire a decimal string → int of 63 bits."""

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, str) and not data.startswith("-") and _DECIMAL.fullmatch(data):
            number = int(data)
            if number <= INTEGERS[1]:
                return number
        raise self.refuse(f'{quote(data)} is not an id; write the decimal string, like "7012".')

    def to_representation(self, value: Any) -> str:
        return str(value)


class StrictSerializer(serializers.Serializer[Any]):
    """A body, a query or an answer; unknown fields are errors.

    Views call `check`; fields are the ones of this module, and nested StrictSerializers.
    """

    # A body that has one of several shapes has the fields of all; which go together is for
    # `to_internal_value` or the view to check.
    shapes: ClassVar[tuple[type[StrictSerializer], ...]] = ()
    # A JSON Schema of fields that do not go together, as the view checks. Generators of clients
    # read `not` over, where of `anyOf` beside fields some make a class without these.
    never: ClassVar[Mapping[str, Any]] = {}
    # Whether a field that is left out stays as it is, as in PATCH.
    is_changes: ClassVar[bool] = False
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
        """The same for query parameters; each may be given once, unless it is `Texts`."""
        fields = cls._instance(False).fields
        data: dict[str, Any] = {}
        twice: dict[str, Any] = {}
        for name, texts in query.lists():
            field = fields.get(name)
            if isinstance(field, Texts):
                data[name] = texts
                continue
            data[name] = field.from_text(texts[0]) if isinstance(field, _Strict) else texts[0]
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
        # Without DRF's further steps: no serializer here has validators of its own.
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
        if not getattr(self.root, "partial", False):
            for name in missing.keys() - data.keys():
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


@functools.cache
def _answer(shape: type[Answer]) -> Answer:
    # Copying the declared fields costs more than representing a row, which changes none of them.
    return shape()
