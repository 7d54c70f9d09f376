"""Settings with a default, what is allowed and a meaning; each app declares its own in `conf.py`.

A value comes from the Django setting of the same name, which settings.py fills from the
environment. `manage.py settings` prints all of them. Durations are written `90`, `90s`, `15m`, `6h`
or `7d`.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, overload

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from apps.common.durations import SECONDS

T = TypeVar("T")

_ROOT = Path(__file__).resolve().parents[2]
_SIZES = {"": 1, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def parse_duration(text: str) -> timedelta:
    """`90`, `90s`, `15m`, `6h`, `7d` as a timedelta; ValueError otherwise."""
    match = re.fullmatch(r"(\d{1,9})([smhd]?)", text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a duration; write for example 90s, 15m, 6h or 7d")
    return timedelta(seconds=int(match[1]) * SECONDS[match[2] or "s"])


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
    raise ValueError(f"{text!r} is neither yes nor no")


def parse_names(text: str) -> tuple[str, ...]:
    """The parts of a comma-separated list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_networks(text: str) -> tuple[str, ...]:
    """Networks, `10.1.0.0/16`; an address is a network of one, `10.0.0.4/32`."""
    return tuple(str(ipaddress.ip_network(each)) for each in parse_names(text))


@dataclass
class Setting(Generic[T]):
    """One variable, read at each use, so that changes take effect at once.

    `default` is written as in the environment, "" for none; `usual` says it in words where other
    variables decide it. `allowed` and `meaning` are for people. A text that may hold a password
    (`is_secret`) is quoted nowhere, and may stand in a file of its own.
    """

    default: str
    parse: Callable[[str], T]
    allowed: str
    meaning: str
    minimum: T | None = None
    maximum: T | None = None
    usual: str = ""
    example: str = ""
    is_secret: bool = False
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
        value: T = getattr(settings, self.name)
        return value

    def text(self, environment: Mapping[str, str] = os.environ) -> str:
        """The variable without blanks around it; an empty one counts as absent. A secret may stand
        in the file that `NAME_FILE` names."""
        value = environment.get(self.name, "").strip()
        if self.is_secret and (file := environment.get(f"{self.name}_FILE", "").strip()):
            if value:
                raise ImproperlyConfigured(
                    f"{self.name} and {self.name}_FILE are both set; keep one of them"
                )
            value = self._content(_ROOT / file)
        return value

    def _content(self, file: Path) -> str:
        try:
            value = file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            raise ImproperlyConfigured(
                f"{self.name}_FILE={file} cannot be read: {reason}; name a file that holds the "
                f"value of {self.name} and that the user who runs the platform may read"
            ) from error
        if not value:
            raise ImproperlyConfigured(
                f"{self.name}_FILE={file} is empty; write the value of {self.name} into it"
            )
        return value

    def given(self, environment: Mapping[str, str] = os.environ, *, default: str = "") -> T:
        """The value of the environment, otherwise the default."""
        return self.read(self.text(environment) or default or self.default)

    def read(self, text: str) -> T:
        """Parse the text; ImproperlyConfigured says what is allowed."""
        try:
            value = self.parse(text)
            too_small = self.minimum is not None and value < self.minimum  # type: ignore[operator]
            too_large = self.maximum is not None and value > self.maximum  # type: ignore[operator]
            if too_small or too_large:
                raise ValueError(f"{text} is out of range")
        except ValueError as error:
            # A cause may quote a part of a password.
            raise ImproperlyConfigured(
                f"{self.name}: {error}. Allowed: {self.allowed}. {self.meaning}"
            ) from (None if self.is_secret else error)
        return value


def duration(
    default: str, meaning: str, *, minimum: str = "0", maximum: str = "365d"
) -> Setting[timedelta]:
    return Setting(
        default,
        parse_duration,
        f"{minimum} to {maximum}",
        meaning,
        parse_duration(minimum),
        parse_duration(maximum),
    )


def integer(
    default: int, meaning: str, *, minimum: int, maximum: int, usual: str = ""
) -> Setting[int]:
    allowed = f"{minimum} to {maximum}"
    return Setting(str(default), parse_integer, allowed, meaning, minimum, maximum, usual=usual)


def flag(meaning: str, *, usual: str = "") -> Setting[bool]:
    """Off unless it is switched on."""
    return Setting("0", parse_flag, "0 or 1", meaning, usual=usual)


def names(
    default: tuple[str, ...], allowed: str, meaning: str, *, usual: str = ""
) -> Setting[tuple[str, ...]]:
    return Setting(",".join(default), parse_names, allowed, meaning, usual=usual)


class Conf:
    """Base of the settings of an app, which are its attributes: `conf.DISPATCH_LOOKBACK`."""

    title: ClassVar[str]

    @classmethod
    def declared(cls) -> dict[str, Setting[Any]]:
        """The settings by name."""
        return {name: each for name, each in vars(cls).items() if isinstance(each, Setting)}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> dict[str, Any]:
        """All values: from the environment, parsed and range-checked, or the defaults."""
        return {name: each.given(environment) for name, each in cls.declared().items()}


class CommonConf(Conf):
    title = "Masking"

    MASKED_KEYS = names(
        (
            *("password", "passwords", "passwd", "pwd", "passphrase", "passwort", "kennwort"),
            *("secret", "secrets", "token", "credential", "credentials", "jwt", "bearer", "otp"),
            *("pin", "session", "session_id", "cookie", "cookies", "signature", "authorization"),
            *("api_key", "access_key", "private_key", "signing_key", "encryption_key"),
            *("access_token", "refresh_token", "auth_token", "csrf_token", "id_token"),
            *("app_secret", "client_secret", "corp_secret", "passcode", "db_pass", "sshpass"),
            *("rediscli_auth", "requirepass"),
            *("密码", "口令", "密钥", "令牌", "验证码", "凭证", "凭据"),
        ),
        "words, separated by commas",
        "Names of secrets, whose values nobody is shown in params, results and texts without the "
        "scope payload; a list of yours replaces the usual one.",
        usual="password, secret, token, 密码, …",
    )


conf = CommonConf()
