"""Text that is sealed in the database: whoever has its rows or a dump, but no SECRET_KEY, cannot
read it."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.db import models

# The prefix of sealed text; rows of earlier releases are plain.
PREFIX = "sealed:1:"
_PURPOSE = b"taskplatform sealed text"

if TYPE_CHECKING:
    TextField = models.TextField[str, str]
else:
    # Django's fields are generic for type checkers only.
    TextField = models.TextField


class Unreadable(str):
    """Text that no present key opens: it is empty. `stored` is what the row keeps all the same."""

    stored: str


class SealedField(TextField):
    """Text that is sealed by SECRET_KEY, and opened by it or one of SECRET_KEY_FALLBACKS.

    Dumps have it sealed, too. It is found by no value.
    """

    def from_db_value(self, value: str, _expression: Any, _connection: Any) -> str:
        return opened(value)

    def get_prep_value(self, value: Any) -> Any:
        prepared = super().get_prep_value(value)
        if isinstance(value, Unreadable):
            return value.stored
        is_sealed = not prepared or prepared.startswith(PREFIX)
        return prepared if is_sealed else _sealed(prepared)

    def value_to_string(self, obj: models.Model) -> str:
        return str(self.get_prep_value(self.value_from_object(obj)))


def opened(stored: str) -> str:
    """The text of a column; Unreadable without its key."""
    if not stored.startswith(PREFIX):
        return stored
    try:
        return MultiFernet(_boxes()).decrypt(stored.removeprefix(PREFIX)).decode()
    except InvalidToken:
        found = Unreadable()
        found.stored = stored
        return found


def resealed(stored: str) -> str | None:
    """The text of a column sealed by the present key; None when it is already, or is unreadable."""
    if stored.startswith(PREFIX):
        try:
            _boxes()[0].decrypt(stored.removeprefix(PREFIX))
        except InvalidToken:
            text = opened(stored)
            return None if isinstance(text, Unreadable) else _sealed(text)
        return None
    return _sealed(stored) if stored else None


def _sealed(text: str) -> str:
    return PREFIX + _boxes()[0].encrypt(text.encode()).decode()


def _boxes() -> list[Fernet]:
    return [_box(key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]


@lru_cache(maxsize=20)
def _box(key: str) -> Fernet:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=_PURPOSE).derive(key.encode())
    return Fernet(urlsafe_b64encode(derived))
