"""Limits of sign-ins: how often a password is tried for a name, from an address and on a device.

Anybody can use up the limits of a name and of an address. So a device that has signed in by a name
has a count of its own for it: wrong passwords from elsewhere do not keep its owner out. A signed
cookie is what makes a device known.
"""

from __future__ import annotations

import hashlib
import logging
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from axes.backends import AxesStandaloneBackend
from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponseBase, parse_cookie
from django.utils.crypto import get_random_string

from apps.access import throttles
from apps.access.conf import conf
from apps.access.rules.clients import Rate
from apps.common.api.parsers import declares_more
from apps.common.errors import PlatformError, Throttled, TooLarge

logger = logging.getLogger(__name__)

# More than any name and password need: hashing a megabyte would keep a process busy.
MAX_BYTES = 16_384
DEVICE_COOKIE = "__Host-device" if settings.SESSION_COOKIE_SECURE else "device"
# The longest time that browsers keep a cookie.
_DEVICE_SECONDS = 400 * 86_400
_MOST_NAMES = 10
# The letters of a name in the log.
_MAX_NAME = 150
_SALT = "taskplatform.device"


@dataclass(frozen=True)
class Device:
    """A browser: its id, and digests of the names that signed in there, the latest first."""

    id: str
    names: tuple[str, ...]

    @classmethod
    def of(cls, cookies: Mapping[str, str]) -> Device:
        """The device of the cookie; without one, or with a forged one, a new device without
        names."""
        try:
            known = signing.loads(cookies.get(DEVICE_COOKIE, ""), salt=_SALT)
        except signing.BadSignature:
            return cls(get_random_string(22), ())
        return cls(known["id"], tuple(known["names"]))


def _limits(name: str, address: str, device: Device) -> dict[str, Rate]:
    """The rates, by their counts, of tries of a password for that name."""
    digest = _digest(name)
    rate = Rate(conf.SIGN_IN_LIMIT, throttles.MINUTE)
    if digest in device.names:
        # Fewer, because axes does not lock it.
        fewer = min(rate.limit, settings.AXES_FAILURE_LIMIT)
        return {f"sign-in:device:{device.id}:{digest}": Rate(fewer, throttles.MINUTE)}
    return {f"sign-in:name:{digest}": rate, f"sign-in:address:{address}": rate}


def _digest(name: str) -> str:
    """Equal for spellings that differ by case, accents, width and blanks around them alone."""
    signs = unicodedata.normalize("NFKD", name.strip().casefold())
    plain = "".join(sign for sign in signs if not unicodedata.combining(sign))
    return hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()[:32]


def is_known(request: HttpRequest, credentials: Mapping[str, Any] | None) -> bool:
    """Whether the device has signed in by that name: axes then does not lock it."""
    name = str((credentials or {}).get("username") or "")
    return _digest(name) in Device.of(request.COOKIES).names


def remember(request: HttpRequest, response: HttpResponseBase) -> None:
    """Make the device of somebody who has just signed in known for that name."""
    device = Device.of(request.COOKIES)
    names = dict.fromkeys([_digest(request.user.get_username()), *device.names])
    value = signing.dumps({"id": device.id, "names": [*names][:_MOST_NAMES]}, salt=_SALT)
    response.set_cookie(
        DEVICE_COOKIE,
        value,
        max_age=_DEVICE_SECONDS,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


class Backend(AxesStandaloneBackend):  # type: ignore[misc]
    """Counts a password just before the next backend compares it; what axes refuses is none."""

    def authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Throttled, before the password is hashed, when too many were tried."""
        super().authenticate(request, **credentials)
        name = str(credentials.get("username") or "")
        address = request.META.get("REMOTE_ADDR", "")
        if wait := _counted(_limits(name, address, Device.of(request.COOKIES))):
            raise _too_many(name, address, wait)


def count_own_password(user: Any) -> None:
    """Throttled when a session tries too many old passwords, as others at an open screen would."""
    rate = Rate(conf.SIGN_IN_LIMIT, throttles.MINUTE)
    if wait := _counted({f"sign-in:session:{user.pk}": rate}):
        raise _too_many(user.get_username(), "a session of its own", wait)


def refusal(environ: Mapping[str, Any]) -> PlatformError | None:
    """Why a POST of the login page need not wait for its turn; reads the body and goes back.

    It looks and does not count; `Backend` decides.
    """
    if declares_more(environ, MAX_BYTES):
        return too_large()
    fields = parse_qs(environ["wsgi.input"].read().decode("utf-8", "replace"))
    environ["wsgi.input"].seek(0)
    device = Device.of(parse_cookie(environ.get("HTTP_COOKIE", "")))
    name, address = fields.get("username", [""])[0], environ.get("REMOTE_ADDR", "")
    limits = _limits(name, address, device)
    wait = max(throttles.seconds_left(each, rate) or 0 for each, rate in limits.items())
    return _too_many(name, address, wait) if wait else None


def _counted(limits: Mapping[str, Rate]) -> int:
    """Count one more try; returns the seconds to wait, 0 while all are within their rates."""
    return max([throttles.seconds_to_wait(each, rate) or 0 for each, rate in limits.items()])


def _too_many(name: str, address: str, wait: int) -> PlatformError:
    logger.warning("sign-in as %r from %s refused: too many tries", name[:_MAX_NAME], address)
    message = "Too many passwords were tried for this name or from this address; wait a minute."
    return Throttled(message, retry_after=wait)


def too_large() -> PlatformError:
    """The refusal of more than MAX_BYTES for a sign-in."""
    return TooLarge(f"A name and a password need no more than {MAX_BYTES} bytes.")
