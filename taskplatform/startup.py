"""Sets a machine up before its first process starts: database, static files, login, demo key.

Each step does nothing when its work is done, so a second start is quick.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.db import DatabaseError, Error, InterfaceError, OperationalError, connection
from django.db.backends.utils import CursorWrapper
from django.db.migrations.loader import MigrationLoader

from apps.access.models import ApiClient
from apps.access.rules import keys
from apps.access.services import create_client
from apps.common import clock
from apps.common.errors import PlatformError
from apps.jobs.handlers import checks, registry
from apps.jobs.services.types import make_types

DATABASE_SECONDS = 30.0
ADMIN = "admin"
DEMO_SCOPES = ("pull", "submit", "read", "operate", "metrics")

# MariaDB/MySQL: no socket, connection refused, unknown host, gone away, lost, too many connections,
# shutting down. All of them are temporary while the server starts.
_TEMPORARY = {2002, 2003, 2005, 2006, 2013, 1040, 1053}
_SETUP_LOCK = "taskplatform.setup"
_SETUP_LOCK_SECONDS = 300


class CannotStart(Exception):
    """Why the platform cannot start and what to do about it, in one line."""


def await_database(show: Callable[[str], None]) -> None:
    """Wait until the database accepts connections; it may still be starting."""
    deadline = time.monotonic() + DATABASE_SECONDS
    is_shown = False
    while True:
        try:
            connection.ensure_connection()
            return
        except OperationalError as error:
            if error.args[0] not in _TEMPORARY or time.monotonic() >= deadline:
                raise CannotStart(_unusable(error)) from error
        if not is_shown:
            is_shown = True
            show(f"Waiting for the database {database_address()} to answer.")
        time.sleep(0.25)


def database_problem(command: str) -> str:
    """Why the command cannot work on the database and what to do about it, or ""."""
    try:
        connection.ensure_connection()
        loader = MigrationLoader(connection)
    except Error as error:
        return _unusable(error)
    applied = loader.applied_migrations or ()
    if command != "migrate" and not set(loader.graph.nodes) <= set(applied):
        return (
            f"The database {database_address()} has not all tables of this release. Make them with "
            "manage.py migrate, which make run does by itself."
        )
    return ""


def _unusable(error: Error) -> str:
    return (
        f"The database {database_address()} cannot be used: {error.args[-1]}. Check DATABASE_URL; "
        "the database and its user or the folder of its file must exist."
    )


def database_address() -> str:
    """The address of the database, without its password."""
    values = settings.DATABASES["default"]
    if connection.vendor == "sqlite":
        return str(values["NAME"])
    server = f"{values['HOST'] or 'localhost'}:{values['PORT'] or 3306}"
    return f"{values['USER']}@{server}/{values['NAME']}"


@contextmanager
def setup_lock() -> Iterator[None]:
    """Let one machine at a time set up a shared database; the others wait."""
    if connection.vendor != "mysql":
        # A file of this machine, protected by the lock of VAR_DIR.
        yield
        return
    name = f"{_SETUP_LOCK}.{settings.DATABASES['default']['NAME']}"[:64]
    with connection.cursor() as cursor:
        if not _get_lock(cursor, name):
            raise CannotStart(
                f"Another machine has been setting up the database {database_address()} for "
                f"{_SETUP_LOCK_SECONDS} s. Check that machine, then start again."
            )
        try:
            yield
        finally:
            cursor.execute("SELECT RELEASE_LOCK(%s)", [name])


def _get_lock(cursor: CursorWrapper, name: str) -> bool:
    """Whether we got the lock within _SETUP_LOCK_SECONDS. One statement waits a second at most,
    because signals are not handled while it waits."""
    deadline = time.monotonic() + _SETUP_LOCK_SECONDS
    while True:
        cursor.execute("SELECT GET_LOCK(%s, 1)", [name])
        if cursor.fetchone()[0] == 1:
            return True
        if time.monotonic() >= deadline:
            return False


def protect(var: Path) -> str:
    """Let only the owner read VAR_DIR with what lies in it, also what comes later; why some of it
    stays readable for others, or ""."""
    os.umask(0o077)
    if var.stat().st_mode & stat.S_ISVTX:
        return (
            f"Others can read the files in {var}, because it is a folder that all share: name one "
            "of its own in VAR_DIR"
        )
    for path in (var, *var.iterdir(), *(var / "logs").glob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if path.is_symlink() or not mode & 0o077:
            continue
        try:
            path.chmod(mode & 0o700)
            reason = "its file system keeps no modes" if path.stat().st_mode & 0o077 else ""
        except OSError as error:
            reason = f"{error.strerror}; start as the owner of the files, or change it (chown -R)"
        if reason:
            return f"Others can read {path}: {reason}"
    return ""


def ensure_handlers() -> list[str]:
    """Create missing job types of handlers; CannotStart when a handler is wrong. Returns which
    types have none here, in sentences."""
    if registry.known.problems:
        raise CannotStart(" ".join(registry.known.problems))
    make_types(actor="worker")
    return checks.gaps()


def types_problem() -> str:
    """Make missing job types of handlers, so that a web process that starts before any worker takes
    jobs of them; why that cannot be now, or "". Workers and `migrate` make them, too."""
    try:
        if registry.known.problems:
            return " ".join(registry.known.problems)
        make_types(actor="web")
    except (DatabaseError, InterfaceError, PlatformError) as error:
        return f"The job types of new handlers cannot be made now: {error}"
    return ""


def redis_problem() -> str:
    """Why Redis cannot be used now; "" when it answers or none is configured."""
    if not settings.REDIS_URL:
        return ""
    url = urlsplit(settings.REDIS_URL)
    address = (url.hostname or "127.0.0.1", url.port or 6379)
    try:
        socket.create_connection(address, timeout=1.0).close()
    except OSError as error:
        return f"Redis at {address[0]}:{address[1]} does not answer ({error.strerror or error})"
    return ""


def static_problem() -> str:
    """Why each page would be a failure, or ""; the API works without static files."""
    if settings.DEBUG or _manifest().exists():
        return ""
    return (
        f"No page can be shown: {settings.STATIC_ROOT} has no static files. Run "
        "`manage.py collectstatic --no-input`, then start the web server again."
    )


def collect_static(var: Path) -> None:
    """Collect static files into STATIC_ROOT if a source file has changed since the last time."""
    stamp = var / "static.stamp"
    wanted = _static_fingerprint()
    if stamp.exists() and stamp.read_text() == wanted and _manifest().exists():
        return
    stamp.unlink(missing_ok=True)
    call_command("collectstatic", interactive=False, clear=True, verbosity=0)
    stamp.write_text(wanted)


def _manifest() -> Path:
    return Path(settings.STATIC_ROOT) / "staticfiles.json"


def _static_fingerprint() -> str:
    """Names, sizes and times of all source files; reading 20 MB of them would take too long."""
    digest = hashlib.sha256(repr(settings.STORAGES).encode())
    for finder in get_finders():
        for path, storage in finder.list([]):
            found = os.stat(storage.path(path))
            digest.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def ensure_admin(var: Path) -> str:
    """Create the first login; its new password, or "" when the login exists."""
    users = get_user_model()._default_manager
    if users.filter(username=ADMIN).exists():
        return ""
    password = secrets.token_urlsafe(12)
    # The file first: a login without a known password is worse than a superfluous file.
    keep_secret(var / "admin_password", password)
    users.create_superuser(username=ADMIN, password=password)
    return password


def ensure_demo(var: Path) -> str:
    """Create demo data and an API key at the first start on a database; the key.

    "" when DEMO is off or the key is no longer valid because somebody revoked or rotated it.
    """
    if not settings.DEMO:
        return ""
    path = var / "demo_key"
    kept = path.read_text().strip() if path.exists() else ""
    client_id, _, secret = kept.partition(".")
    client = ApiClient.objects.filter(client_id=client_id).first() if kept else None
    if client is not None:
        return kept if client.opens_with(keys.digest_of(secret), clock.now()) else ""
    call_command("demo", verbosity=0)
    _client, key = create_client(name="Demo", scopes=DEMO_SCOPES, actor="serve")
    keep_secret(path, key)
    return key


def reachable_host() -> str:
    """The address by which this machine reaches its own web process."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.HOST, settings.HOST)  # noqa: S104


def keep_secret(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600, exist_ok=False)
    path.write_text(text)
