"""How variables of the environment or of `.env` are written; conf.py says what each one means.

Each parser takes a text and raises ValueError with what is wrong about it.
"""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import django
from django.core.exceptions import ImproperlyConfigured
from environ import Env

from apps.common.conf import parse_names
from apps.common.errors import Invalid
from apps.common.readers import read_key
from apps.common.zones import parse_zone

BASE_DIR = Path(__file__).resolve().parent.parent
# The file of SQLite in VAR_DIR.
DATABASE_FILE = "taskplatform.sqlite3"
Env.read_env(BASE_DIR / ".env")

MIN_SECRET = 50
# Hosts as Django compares them: a name, a name with all subdomains, an address, or everything.
_HOST = re.compile(r"\*|\.?[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]", re.ASCII | re.IGNORECASE)
_ESCAPES = "write / ? # % and @ of a password as %2F %3F %23 %25 and %40"
# The usual port of each way to a mail server.
_MAIL = {"smtp": 25, "smtp+tls": 587, "smtp+ssl": 465}
_OWNER = "start as its owner, or change the owner of all its files (chown -R)"


def parse_keys(text: str) -> tuple[str, ...]:
    """Names of queues or job types."""
    found = parse_names(text)
    for each in found:
        if read_key(each) is None:
            raise ValueError(f"{each!r} is no name")
    return found


def parse_hosts(text: str) -> tuple[str, ...]:
    """Host names that the Host header of a request is compared with."""
    found = parse_names(text)
    for host in found:
        if not _HOST.fullmatch(host):
            raise ValueError(f"{host} is not a host name")
    return found


def parse_address(text: str) -> str:
    """An address of the internet protocol, as the web server takes it; localhost is 127.0.0.1."""
    return "127.0.0.1" if text.lower() == "localhost" else str(ip_address(text))


def parse_apps(text: str) -> tuple[str, ...]:
    """Names of installed Django applications."""
    found = parse_names(text)
    for app in found:
        if find_spec(app.partition(".")[0]) is None:
            raise ValueError(f"there is no app {app}, neither installed nor in {BASE_DIR}")
    return found


def parse_zone_name(text: str) -> str:
    """The name of a time zone."""
    try:
        parse_zone(text)
    except Invalid as error:
        raise ValueError(str(error.detail).rstrip(".")) from error
    return text


def parse_folder(text: str) -> Path:
    """A path; a relative one starts at the folder of the platform."""
    return (BASE_DIR / text).resolve()


def make_folder(name: str, path: Path) -> Path:
    """Create the folder if it is absent; ImproperlyConfigured when nothing can be written there."""
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


def parse_database(text: str) -> dict[str, Any]:
    """Django's description of the database, {} for "".

    A relative path of SQLite starts at the folder of the platform, wherever a command runs.
    """
    if not text:
        return {}
    if not text.startswith(("mysql://", "sqlite:///")):
        raise ValueError("it must start with mysql:// or sqlite:///")
    try:
        found: dict[str, Any] = Env.db_url_config(text)
    except ValueError:
        raise ValueError(f"it is not a valid address; {_ESCAPES}") from None
    if found["NAME"] in {"", ":memory:"}:
        raise ValueError("it does not end with a database")
    if text.startswith("sqlite"):
        found["NAME"] = str(BASE_DIR / found["NAME"])
    return found


def parse_redis(text: str) -> str:
    """The URL of Redis, "" for none."""
    if not text:
        return ""
    if not text.startswith(("redis://", "rediss://")):
        # Celery would use another kind of broker.
        raise ValueError("it must start with redis:// or rediss://")
    try:
        parts = urlsplit(text)
        is_address = bool(parts.hostname) and parts.port != 0 and not parts.fragment
    except ValueError:
        is_address = False
    # With another path, the cache would use database 0 and no worker would start.
    if not is_address or not re.fullmatch(r"/?|/\d{1,5}", parts.path, re.ASCII):
        raise ValueError(f"it is not an address that ends with a database number; {_ESCAPES}")
    return text


def parse_web_address(text: str) -> str:
    """`https://tasks.example.org`, without a slash at its end."""
    value = text.rstrip("/")
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise ValueError(f"{text} is no address of the web")
    return value


def parse_mail(text: str) -> dict[str, Any]:
    """The mail server as host, port, username, password, use_tls and use_ssl; {} without one."""
    if not text:
        return {}
    scheme = text.partition(":")[0]
    try:
        if scheme not in _MAIL or not urlsplit(text).hostname:
            raise ValueError(scheme)
        found: dict[str, Any] = Env.email_url_config(text)
    except (ValueError, ImproperlyConfigured) as error:
        raise ValueError(f"it is no mail server; {_ESCAPES}") from error
    return {
        "host": found["EMAIL_HOST"],
        "port": found["EMAIL_PORT"] or _MAIL[scheme],
        "username": found["EMAIL_HOST_USER"] or "",
        "password": found["EMAIL_HOST_PASSWORD"] or "",
        "use_tls": found.get("EMAIL_USE_TLS", False),
        "use_ssl": found.get("EMAIL_USE_SSL", False),
    }


def mail_settings(server: dict[str, Any]) -> dict[str, Any]:
    """Django's settings of the mail server: MAILERS, or EMAIL_… before Django 6.1; {} for none."""
    if not server:
        return {}
    backend, options = "django.core.mail.backends.smtp.EmailBackend", {**server, "timeout": 10}
    if django.VERSION >= (6, 1):
        return {"MAILERS": {"default": {"BACKEND": backend, "OPTIONS": options}}}
    users = {"username": "HOST_USER", "password": "HOST_PASSWORD"}
    named = {f"EMAIL_{users.get(name, name.upper())}": text for name, text in options.items()}
    return {"EMAIL_BACKEND": backend, **named}


def parse_secret(text: str) -> str:
    if len(text) < MIN_SECRET:
        raise ValueError(
            f"it is shorter than {MIN_SECRET} characters; make one with "
            "python3 -c 'import secrets; print(secrets.token_urlsafe(64))'"
        )
    return text


def kept_secret(path: Path) -> str:
    """The secret key in the file, which is created at the first start."""
    try:
        return _kept_secret(path)
    except PermissionError as error:
        raise ImproperlyConfigured(f"{error.filename} is not readable; {_OWNER}") from error


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
