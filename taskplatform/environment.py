"""Reads and validates what differs between machines: variables of the environment or of `.env`.

An empty variable counts as absent. An invalid one stops the start with a sentence that says what is
allowed.
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

from apps.common.conf import parse_flag
from apps.common.errors import Invalid
from apps.common.zones import parse_zone

BASE_DIR = Path(__file__).resolve().parent.parent
# Of SQLite, in VAR_DIR.
DATABASE_FILE = "taskplatform.sqlite3"
Env.read_env(BASE_DIR / ".env")

_MIN_SECRET = 50
# As Django compares them: a name, a name with all subdomains, an address, or everything.
_HOST = re.compile(r"\*|\.?[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]", re.ASCII | re.IGNORECASE)
_QUEUE = re.compile(r"[A-Za-z0-9_.:@/+-]+")
_DATABASES = (
    "for example mysql://user:password@127.0.0.1:3306/taskplatform or "
    "sqlite:////srv/tasks/taskplatform.sqlite3"
)
_ESCAPES = "write / ? # % and @ of a password as %2F %3F %23 %25 and %40"
# The usual port of each way to a mail server.
_MAIL = {"smtp": 25, "smtp+tls": 587, "smtp+ssl": 465}
_REDIS = "for example redis://:password@127.0.0.1:6379/0"
_OWNER = "start as its owner, or change the owner of all its files (chown -R)"


def text(name: str, default: str = "") -> str:
    """The variable without surrounding blanks."""
    return os.environ.get(name, "").strip() or default


def flag(name: str, *, default: bool = False) -> bool:
    """An on/off variable."""
    value = text(name)
    if not value:
        return default
    try:
        return parse_flag(value)
    except ValueError as error:
        raise ImproperlyConfigured(
            f"{name}={value} is neither yes nor no; write {name}=1 or {name}=0"
        ) from error


def number(name: str, default: int, *, lowest: int, highest: int) -> int:
    """A whole number within bounds."""
    value = text(name, str(default))
    if not (re.fullmatch(r"[0-9]{1,9}", value) and lowest <= int(value) <= highest):
        raise ImproperlyConfigured(f"{name}={value} is not a number from {lowest} to {highest}")
    return int(value)


def names(name: str, default: Sequence[str] = ()) -> list[str]:
    """A list, separated by commas."""
    return [part.strip() for part in text(name).split(",") if part.strip()] or list(default)


def queues(name: str, default: Sequence[str]) -> list[str]:
    """Names of queues, which are parts of names of job types."""
    found = names(name, default)
    for each in found:
        if not _QUEUE.fullmatch(each):
            raise ImproperlyConfigured(
                f"{name}: {each!r} is no name; write queues separated by commas, such as "
                "default,mails"
            )
    return found


def one_of(name: str, default: str, allowed: Sequence[str]) -> str:
    """One of the words, in any mix of upper and lower case."""
    value = text(name, default)
    words = {word.lower(): word for word in allowed}
    if value.lower() not in words:
        raise ImproperlyConfigured(
            f"{name}={value} is not one of {', '.join(allowed[:-1])} and {allowed[-1]}"
        )
    return words[value.lower()]


def hosts(name: str, default: Sequence[str]) -> list[str]:
    """Host names that the Host header of a request is compared with."""
    found = names(name, default)
    for host in found:
        if not _HOST.fullmatch(host):
            raise ImproperlyConfigured(
                f"{name}: {host} is not a host name; write names such as tasks.example.org, "
                ".example.org for all subdomains, 192.0.2.7 or [2001:db8::7], separated by "
                "commas, without https:// and without a port"
            )
    return found


def networks(name: str) -> list[str]:
    """IP addresses and networks."""
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
    """Names of installed Django applications."""
    found = names(name)
    for app in found:
        if find_spec(app.partition(".")[0]) is None:
            raise ImproperlyConfigured(
                f"{name}: there is no app {app}; name Django apps that are installed or in "
                f"{BASE_DIR}, separated by commas"
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
    """A folder, created if absent. A relative path starts at the folder of the platform."""
    path = (BASE_DIR / text(name, default)).resolve()
    try:
        # It holds keys, sessions and password hashes.
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ImproperlyConfigured(
            f"{name}={path} cannot be created: {error.strerror}; name a writable folder"
        ) from error
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise ImproperlyConfigured(f"{name}={path} is not writable; {_OWNER}, or name another")
    return path


def require_platform(command: str) -> None:
    """Stop a command that works on the data of a platform where there is none.

    Before the settings are read, which create the folder.
    """
    path = (BASE_DIR / text("VAR_DIR", "var")).resolve()
    if text("DATABASE_URL") or (path / DATABASE_FILE).exists():
        return
    asked = f"VAR_DIR={path}" if text("VAR_DIR") else f"{path}, which is used without VAR_DIR"
    raise ImproperlyConfigured(
        f"There is no platform in {asked}: it has no database. Name the folder of the platform "
        f"(VAR_DIR=/srv/tasks … manage.py {command}, or VAR_DIR in .env) or its DATABASE_URL; or "
        "make one there with: make run"
    )


def database(name: str, kept_in: Path) -> dict[str, Any]:
    """Django's description of the database; without the variable, the SQLite file `kept_in`.

    A relative path of SQLite starts at the folder of the platform, wherever a command runs.
    """
    url = text(name)
    if not url:
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(kept_in)}
    if not url.startswith(("mysql://", "sqlite:///")):
        raise ImproperlyConfigured(f"{name} must start with mysql:// or sqlite:///; {_DATABASES}")
    try:
        found: dict[str, Any] = Env.db_url_config(url)
    except ValueError:
        # Without the cause, which may contain a part of the password.
        raise ImproperlyConfigured(
            f"{name} is not a valid address; {_ESCAPES}; {_DATABASES}"
        ) from None
    if found["NAME"] in {"", ":memory:"}:
        raise ImproperlyConfigured(f"{name} does not end with a database; {_DATABASES}")
    if url.startswith("sqlite"):
        found["NAME"] = str(BASE_DIR / found["NAME"])
    return found


def redis(name: str) -> str:
    """The URL of Redis, "" for none. Messages never contain it, because it may hold a password."""
    url = text(name)
    if not url:
        return ""
    if not url.startswith(("redis://", "rediss://")):
        # Celery would use another kind of broker.
        raise ImproperlyConfigured(f"{name} must start with redis:// or rediss://; {_REDIS}")
    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname) and parts.port != 0 and not parts.fragment
    except ValueError:
        is_address = False
    # With another path, the cache would use database 0 and no worker would start.
    if not is_address or not re.fullmatch(r"/?|/\d{1,5}", parts.path, re.ASCII):
        raise ImproperlyConfigured(
            f"{name} is not an address that ends with a database number; {_ESCAPES}; {_REDIS}"
        )
    return url


def web_address(name: str, default: str) -> str:
    """`https://tasks.example.org`, without a slash at its end."""
    value = text(name, default).rstrip("/")
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise ImproperlyConfigured(
            f"{name}={value} is no address of the web; write for example https://tasks.example.org"
        )
    return value


def mail(name: str) -> dict[str, Any]:
    """The mail server as Django's EMAIL_ settings; {} without one. The value may hold a password,
    so errors leave it out."""
    value = text(name)
    if not value:
        return {}
    scheme = value.partition(":")[0]
    try:
        if scheme not in _MAIL or not urlsplit(value).hostname:
            raise ValueError(scheme)
        found: dict[str, Any] = Env.email_url_config(value)
    except (ValueError, ImproperlyConfigured) as error:
        raise ImproperlyConfigured(
            f"{name} is no mail server; write for example "
            "smtp+tls://user:password@mail.example.org:587 or smtp+ssl://mail.example.org:465; "
            f"{_ESCAPES}"
        ) from error
    return {**found, "EMAIL_PORT": found["EMAIL_PORT"] or _MAIL[scheme]}


def secret(name: str, kept_in: Path) -> str:
    """The secret key; without the variable, the one in the file, created at the first start."""
    try:
        value = text(name) or _kept_secret(kept_in)
    except PermissionError as error:
        raise ImproperlyConfigured(f"{error.filename} is not readable; {_OWNER}") from error
    if len(value) < _MIN_SECRET:
        raise ImproperlyConfigured(
            f"{name} is shorter than {_MIN_SECRET} characters; make one with "
            "python3 -c 'import secrets; print(secrets.token_urlsafe(64))'"
        )
    return value


def _kept_secret(path: Path) -> str:
    if path.exists():
        return path.read_text().strip()
    # Linked when complete: neither another process nor a full disk may leave half of a key.
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.touch(mode=0o600)
    try:
        draft.write_text(secrets.token_urlsafe(64))
        with suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        draft.unlink()
    return path.read_text().strip()
