"""Fields of strict input: values of another type are errors that say what to write."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from django.core.validators import ProhibitNullCharactersValidator
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.validators import ProhibitSurrogateCharactersValidator

from apps.common.errors import PlatformError
from apps.common.json_rules import check_json, check_text
from apps.common.masking import kind_of, quote
from apps.common.messages import wire_time
from apps.common.readers import read_integer, read_key, read_number
from apps.common.shaped import stored

_INSTANT = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
# No more errors than these are looked for: a body may be wrong in each of its parts.
MAX_NAMED = 100
MISSING = "This field is missing; it has no default."
NULL = "null is not taken here; give a value."
SAY_WHY = "Say why; the journal keeps it."
_TEXT_VALIDATORS = (ProhibitNullCharactersValidator, ProhibitSurrogateCharactersValidator)


class StrictField(serializers.Field[Any, Any, Any, Any]):
    """The base of the fields below: error messages, and values from query text."""

    default_error_messages = {
        "required": MISSING,
        "null": NULL,
    }

    def from_text(self, text: str) -> Any:
        """The value that a query parameter means, before it is checked like any other."""
        return text

    @staticmethod
    def refuse(message: str, code: str = "invalid") -> ValidationError:
        return ValidationError(message, code=code)


class Text(StrictField, serializers.CharField):
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


class ReasonText(Text):
    """The reason that somebody gives for an act."""

    default_error_messages = {"required": SAY_WHY, "blank": SAY_WHY}


class Name(Text):
    """A key as `KeyField` stores it: letters, digits and `_ . : @ / + -`, no blanks."""

    def to_internal_value(self, data: Any) -> str:
        name = super().to_internal_value(data)
        if read_key(name) is None:
            raise self.refuse(f"{quote(name)} is no name: use letters, digits and _ . : @ / + -")
        return name


class Integer(StrictField, serializers.IntegerField):
    """A JSON integer from `min_value` to `max_value`; no 5.0, "5" or true."""

    default_error_messages = {
        "min_value": "%(show_value)s is too small; write {min_value} or more.",
        "max_value": "%(show_value)s is too large; write {max_value} or less.",
    }

    def __init__(self, *, min_value: int, max_value: int, **kwargs: Any) -> None:
        super().__init__(min_value=min_value, max_value=max_value, **kwargs)

    def from_text(self, text: str) -> Any:
        # In an address a plus sign is a blank.
        number = None if text.startswith("+") else read_integer(text)
        return text if number is None else number

    def to_internal_value(self, data: Any) -> int:
        if type(data) is int:
            return data
        raise self.refuse(
            f"{quote(data)} is not an integer; write one from {self.min_value} to {self.max_value}."
        )


class Number(StrictField, serializers.FloatField):
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


class Boolean(StrictField, serializers.BooleanField):
    """true or false; no 1, "yes" or null."""

    def from_text(self, text: str) -> Any:
        return {"true": True, "false": False}.get(text, text)

    def to_internal_value(self, data: Any) -> bool:
        if data is True or data is False:
            return data
        raise self.refuse(f"{quote(data)} is not a boolean; write true or false.")


class Choice(StrictField, serializers.ChoiceField):
    """One of the given words. `choices`: words, or pairs of word and label."""

    def to_internal_value(self, data: Any) -> str:
        if isinstance(data, str) and data in self.choices:
            return data
        words = ", ".join(str(word) for word in self.choices)
        raise self.refuse(f"{quote(data)} is none of: {words}.")


class Instant(StrictField, serializers.DateTimeField):
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
            local = self.moment(datetime.fromisoformat(f"{day}T{time}{offset.upper()}"))
            at = local.astimezone(UTC).replace(microsecond=int((decimals or "0").ljust(6, "0")[:6]))
        except (ValueError, OverflowError) as error:
            raise self.refuse(f"{quote(data)} names no moment that exists: {error}.") from error
        if at.year < 1970:
            raise self.refuse(f"{quote(data)} is before 1970; write a later time.")
        return at

    def moment(self, at: datetime) -> datetime:
        """The moment that a time of the calendar stands for."""
        return at

    def to_representation(self, value: Any) -> str:
        return wire_time(value)


class StoredObject(serializers.DictField):
    """A column of JSON objects, as it is stored: SQL may have written any other value there."""

    def to_representation(self, value: Any) -> Any:
        found = stored(value)
        return super().to_representation(found) if isinstance(found, dict) else found


class StoredTexts(serializers.ListField):
    """A column of lists of texts, as it is stored."""

    child = serializers.CharField()

    def to_representation(self, value: Any) -> Any:
        return stored(value)


class JsonObject(StrictField, StoredObject):
    """A JSON object of any content within the limits of `check_json`."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise self.refuse(f"{kind_of(data)} is not a JSON object; write {{…}}.")
        try:
            check_json(data)
        except PlatformError as error:
            raise self.refuse(error.detail, error.code) from error
        return data


class Json(StrictField, serializers.JSONField):
    """Any JSON value; the rules that keep it check it."""

    def to_internal_value(self, data: Any) -> Any:
        return data


class _List(StrictField, serializers.ListField):
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


class Lines(_List):
    """A list of at most `max_items` texts, however long: what keeps them takes what it has room
    for, and makes harmless what a database or terminal does not take."""

    default_error_messages = {"max_length": "More than {max_length} lines; send fewer at a time."}
    example = '["12 of 40 pages"]'

    def __init__(self, *, max_items: int, **kwargs: Any) -> None:
        super().__init__(
            child=serializers.CharField(allow_blank=True), max_length=max_items, **kwargs
        )

    def run_child_validation(self, data: list[Any]) -> list[str]:
        for position, item in enumerate(data):
            if not isinstance(item, str):
                words = f"{quote(item)} is not a string; write it in quotes."
                wrong: Any = {position: [words]}
                raise ValidationError(wrong)
        return data


class Items(_List):
    """A list of 1 to `max_items` objects, each checked by `child`."""

    default_error_messages = {
        "max_length": "More than {max_length} items; send fewer at a time.",
        "min_length": "An empty list is no work; give at least one item.",
    }
    example = "[{…}, {…}]"

    def __init__(
        self, *, child: serializers.Serializer[Any], max_items: int, **kwargs: Any
    ) -> None:
        super().__init__(child=child, min_length=1, max_length=max_items, **kwargs)


@extend_schema_field({"type": "string", "pattern": "^[0-9]{1,19}$"})
class DecimalId(StrictField):
    """The id of a dispatch or job, on the wire a decimal string → int of 63 bits."""

    def to_internal_value(self, data: Any) -> int:
        number = read_number(data) if isinstance(data, str) else None
        if number is None:
            raise self.refuse(f'{quote(data)} is not an id; write the decimal string, like "7012".')
        return number

    def to_representation(self, value: Any) -> str:
        return str(value)
