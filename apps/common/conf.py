"""Settings with a type, a default, a range and a meaning; each app declares its own in `conf.py`.

A value comes from the Django setting of the same name, which settings.py fills from the
environment. Durations are written `90`, `90s`, `15m`, `6h` or `7d`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar, overload

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

T = TypeVar("T")

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_SIZES = {"": 1, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def parse_duration(text: str) -> timedelta:
    """`90`, `90s`, `15m`, `6h`, `7d` as a timedelta; ValueError otherwise."""
    match = re.fullmatch(r"(\d{1,9})([smhd]?)", text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a duration; write for example 90s, 15m, 6h or 7d")
    return timedelta(seconds=int(match[1]) * _UNITS[match[2]])


def parse_size(text: str) -> int:
    """`500MB`, `80GB`, `2TB` as bytes; ValueError otherwise."""
    match = re.fullmatch(r"(\d{1,15})\s*([MGT]B|)", text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a size; write for example 500MB, 80GB or 2TB")
    return int(match[1]) * _SIZES[match[2]]


def days(time: timedelta) -> str:
    """`7 d`, `1.5 d`."""
    return f"{time / timedelta(days=1):g} d"


def parse_integer(text: str) -> int:
    if not re.fullmatch(r"-?\d{1,18}", text.strip()):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def parse_flag(text: str) -> bool:
    value = text.strip().lower()
    if value in {"0", "no", "false", "off"}:
        return False
    if value in {"1", "yes", "true", "on"}:
        return True
    raise ValueError(f"{text!r} is neither yes nor no; write 1 or 0")


def parse_names(text: str) -> tuple[str, ...]:
    """The parts of a comma-separated list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


@dataclass
class Setting(Generic[T]):
    """One setting, read at each use, so that changes take effect at once."""

    default: T
    parse: Callable[[str], T]
    meaning: str
    minimum: T | None = None
    maximum: T | None = None
    name: str = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Setting[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Setting[T] | T:
        if instance is None:
            return self
        value: T = getattr(settings, self.name, self.default)
        return value

    def read(self, text: str) -> T:
        """Parse the text; ImproperlyConfigured names the allowed values."""
        try:
            value = self.parse(text)
        except ValueError as exc:
            raise ImproperlyConfigured(f"{self.name}: {exc}. {self.meaning}") from exc
        too_small = self.minimum is not None and value < self.minimum  # type: ignore[operator]
        too_large = self.maximum is not None and value > self.maximum  # type: ignore[operator]
        if too_small or too_large:
            raise ImproperlyConfigured(
                f"{self.name}={text} is out of range: {self.minimum} to {self.maximum}. "
                f"{self.meaning}"
            )
        return value


def duration(
    default: str, meaning: str, *, minimum: str = "0", maximum: str = "365d"
) -> Setting[timedelta]:
    return Setting(
        parse_duration(default),
        parse_duration,
        meaning,
        parse_duration(minimum),
        parse_duration(maximum),
    )


def integer(default: int, meaning: str, *, minimum: int, maximum: int) -> Setting[int]:
    return Setting(default, parse_integer, meaning, minimum, maximum)


def flag(meaning: str) -> Setting[bool]:
    """Off unless it is switched on."""
    return Setting(False, parse_flag, meaning)


def names(default: tuple[str, ...], meaning: str) -> Setting[tuple[str, ...]]:
    return Setting(default, parse_names, meaning)


class Conf:
    """Base of the settings of an app, which are its attributes: `conf.DISPATCH_LOOKBACK`."""

    @classmethod
    def declared(cls) -> dict[str, Setting[Any]]:
        """The settings by name."""
        return {name: each for name, each in vars(cls).items() if isinstance(each, Setting)}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> dict[str, Any]:
        """All values: from the environment, parsed and range-checked, or the defaults."""
        return {
            name: setting.read(environment[name]) if environment.get(name) else setting.default
            for name, setting in cls.declared().items()
        }


class CommonConf(Conf):
    MASKED_KEYS = names(
        (
            *("password", "passwords", "passwd", "pwd", "passphrase", "passwort", "kennwort"),
            *("secret", "secrets", "token", "credential", "credentials", "jwt", "bearer", "otp"),
            *("pin", "session", "session_id", "cookie", "cookies", "signature", "authorization"),
            *("api_key", "access_key", "private_key", "signing_key", "encryption_key"),
            *("access_token", "refresh_token", "auth_token", "csrf_token", "id_token"),
            *("密码", "口令", "密钥", "令牌", "验证码", "凭证", "凭据"),
        ),
        "Words in keys of params, results and contexts whose values nobody is shown in admin, nor "
        "by the API without the scope payload.",
    )


conf = CommonConf()
