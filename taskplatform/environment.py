"""What differs between machines: variables of the environment or of `.env`, each judged as read.

An empty variable is as good as none. One that makes no sense stops the start with a sentence that
says what is allowed.
"""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from environ import Env

from apps.common.errors import Invalid
from apps.common.zones import parse_zone

BASE_DIR = Path(__file__).resolve().parent.parent
if (BASE_DIR / ".env").is_file():
    Env.read_env(BASE_DIR / ".env")

_MIN_SECRET = 50
# As Django compares them: a name, one with all below it, an address, or everything.
_HOST = re.compile(r"\*|\.?[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]", re.ASCII | re.IGNORECASE)
_DATABASES = (
    "for example mysql://user:password@127.0.0.1:3306/taskplatform or "
    "sqlite:////srv/tasks/taskplatform.sqlite3"
)
_REDIS = "for example redis://:password@127.0.0.1:6379/0"
_OWNER = "start as its owner, or give it to this user with all in it (chown -R)"


def text(name: str, default: str = "") -> str:
    """The variable, without blanks around it."""
    return os.environ.get(name, "").strip() or default


def flag(name: str, *, default: bool = False) -> bool:
    """An on/off variable."""
    value = text(name).lower()
    if not value:
        return default
    if value in {"0", "no", "false", "off"}:
        return False
    if value in {"1", "yes", "true", "on"}:
        return True
    raise ImproperlyConfigured(f"{name}={value} is neither yes nor no; write {name}=1 or {name}=0")


def number(name: str, default: int, *, least: int, most: int) -> int:
    """A whole number of the range."""
    value = text(name, str(default))
    is_whole = value.isascii() and value.isdigit() and len(value) < 10
    if not (is_whole and least <= int(value) <= most):
        raise ImproperlyConfigured(f"{name}={value} is no number from {least} to {most}")
    return int(value)


def names(name: str, default: Sequence[str] = ()) -> list[str]:
    """What stands between its commas."""
    return [part.strip() for part in text(name).split(",") if part.strip()] or list(default)


def one_of(name: str, default: str, allowed: Sequence[str]) -> str:
    """One of these words, however its letters are written."""
    value = text(name, default)
    for word in allowed:
        if word.lower() == value.lower():
            return word
    raise ImproperlyConfigured(
        f"{name}={value} is none of {', '.join(allowed[:-1])} and {allowed[-1]}"
    )


def hosts(name: str, default: Sequence[str]) -> list[str]:
    """Host names as the Host header of a request is compared with."""
    found = names(name, default)
    for host in found:
        if not _HOST.fullmatch(host):
            raise ImproperlyConfigured(
                f"{name} names {host}, which no request can be sent to; write names such as "
                "tasks.example.org, .example.org for all below it, 192.0.2.7 or [2001:db8::7], "
                "separated by commas, without https:// and without a port"
            )
    return found


def networks(name: str) -> list[str]:
    """Addresses and networks."""
    found = names(name)
    for each in found:
        try:
            ipaddress.ip_network(each)
        except ValueError as error:
            raise ImproperlyConfigured(
                f"{name}: {error}; write addresses such as 10.0.0.4 or networks such as "
                "10.0.0.0/24, separated by commas"
            ) from error
    return found


def apps(name: str) -> list[str]:
    """Names of Django applications that Python finds."""
    found = names(name)
    for app in found:
        if find_spec(app.partition(".")[0]) is None:
            raise ImproperlyConfigured(
                f"{name} names {app}, which Python does not find; name Django apps that lie in "
                f"{BASE_DIR} or are installed, separated by commas"
            )
    return found


def zone(name: str, default: str) -> str:
    """The name of a time zone."""
    value = text(name, default)
    try:
        parse_zone(value)
    except Invalid as error:
        raise ImproperlyConfigured(f"{name}={value}: {error.detail}") from error
    return value


def folder(name: str, default: str) -> Path:
    """A folder, made where there is none; relative to that of the platform."""
    path = (BASE_DIR / text(name, default)).resolve()
    try:
        # What lies in it opens the platform: keys, sessions, the hashes of passwords.
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ImproperlyConfigured(
            f"{name}={path} cannot be made: {error.strerror}; name a folder that can be written"
        ) from error
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise ImproperlyConfigured(f"{name}={path} cannot be written; {_OWNER}, or name another")
    return path


def database(name: str, kept_in: Path) -> dict[str, Any]:
    """What Django is told of the database; without the variable it is the SQLite file `kept_in`.

    A relative path of SQLite is one below the folder of the platform, wherever a command runs.
    """
    url = text(name)
    if not url:
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(kept_in)}
    if not url.startswith(("mysql://", "sqlite:///")):
        raise ImproperlyConfigured(f"{name} must start with mysql:// or sqlite:///; {_DATABASES}")
    try:
        found: dict[str, Any] = Env.db_url_config(url)
    except ValueError:
        # Without the cause, which may quote a part of the password.
        raise ImproperlyConfigured(
            f"{name} cannot be read; write / ? # % and @ of a password as %2F %3F %23 %25 and %40; "
            f"{_DATABASES}"
        ) from None
    if found["NAME"] in {"", ":memory:"}:
        raise ImproperlyConfigured(f"{name} names no database at its end; {_DATABASES}")
    if url.startswith("sqlite"):
        found["NAME"] = str(BASE_DIR / found["NAME"])
    return found


def redis(name: str) -> str:
    """The address of a Redis, "" for none. It may hold a password, so it is never told."""
    url = text(name)
    if not url:
        return ""
    if not url.startswith(("redis://", "rediss://")):
        # Celery would take it for a broker of another kind.
        raise ImproperlyConfigured(f"{name} must start with redis:// or rediss://; {_REDIS}")
    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname) and parts.port != 0 and not parts.fragment
    except ValueError:
        is_address = False
    # The cache takes another path for 0, and no worker starts with one.
    if not is_address or not re.fullmatch(r"/?|/\d{1,5}", parts.path, re.ASCII):
        raise ImproperlyConfigured(
            f"{name} names no address with a database number at its end; write / ? # % and @ of a "
            f"password as %2F %3F %23 %25 and %40; {_REDIS}"
        )
    return url


def secret(name: str, kept_in: Path) -> str:
    """The secret key; without one that of this machine, which is kept in the file."""
    try:
        value = text(name) or _kept_secret(kept_in)
    except PermissionError as error:
        raise ImproperlyConfigured(f"{error.filename} cannot be read; {_OWNER}") from error
    if len(value) < _MIN_SECRET:
        raise ImproperlyConfigured(
            f"{name} is shorter than {_MIN_SECRET} characters; make one with "
            "python3 -c 'import secrets; print(secrets.token_urlsafe(64))'"
        )
    return value


def _kept_secret(path: Path) -> str:
    """Made at the first start and kept readable to us alone."""
    if path.exists():
        return path.read_text().strip()
    # Written aside first: another process must not read half of it, nor a full disk leave that.
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(64))
        with suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        draft.unlink()
    return path.read_text().strip()
