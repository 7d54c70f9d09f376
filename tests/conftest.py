"""What every test uses: an environment of its own, a clock to move, keys and clients.

Django is configured from here and not from pyproject.toml, because its settings read the
environment once, and pytest-django would load them before this file can prepare it.
"""

from __future__ import annotations

import atexit
import gc
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import django
import hypothesis
import pytest
from django.conf import settings as django_settings
from django.contrib.admin import autodiscover
from pytest_django.plugin import blocking_manager_key

from tests import forks
from tests.caches import clear_caches
from tests.clients import JsonClient
from tests.databases import copy_database, execute_mysql, migrated_once, run_folder
from tests.environment import examples, neutral, new_folder
from tests.frozen import FrozenClock, id_maker
from tests.races import Race, race

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker

# Ten thousand tests and all modules stay to the end: looking through them for garbage finds none.
gc.set_threshold(50_000)

# Files of other tests for each of those of whole processes and browsers.
QUICK_FOR_SLOW = 5
SLOW = [Path(__file__).parent / name for name in ("acceptance", "browser")]
# As they are outside of tests.
ALL_BADGES: dict[str, Any] = {}
VAR_DIR = new_folder("taskplatform-tests-")
atexit.register(shutil.rmtree, VAR_DIR)


def _prepare_environment() -> None:
    if django_settings.configured:
        pytest.exit("Django was configured before the tests; unset DJANGO_SETTINGS_MODULE", 4)
    os.environ.update(neutral(VAR_DIR), DJANGO_SETTINGS_MODULE="taskplatform.settings")
    os.environ.setdefault("DATABASE_URL", "")
    os.environ.setdefault("REDIS_URL", "")
    # WhiteNoise warns of a missing folder, and tests collect nothing into it.
    (VAR_DIR / "static").mkdir()
    if os.environ["REDIS_URL"]:
        # Tests empty their cache, so each process beside others has one of Redis's 16 to itself.
        position = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        address = urlsplit(os.environ["REDIS_URL"])
        os.environ["REDIS_URL"] = address._replace(path=f"/{position}").geturl()


_prepare_environment()
django.setup()
# As in a process that answers requests: which pages there are is not to hang on the order of tests.
autodiscover()
# Processes started by the tests, those of xdist first of all, are to begin from nothing too.
del os.environ["DJANGO_SETTINGS_MODULE"]

hypothesis.settings.register_profile(
    "default",
    deadline=None,
    max_examples=examples(50),
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "thorough", hypothesis.settings.get_profile("default"), max_examples=2000
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def is_mariadb() -> bool:
    return bool(django_settings.DATABASES["default"]["ENGINE"].endswith("mysql"))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Make the database that all are copied from while the processes of this run collect."""
    if session.config.getoption("numprocesses", None) and "PYTEST_XDIST_WORKER" not in os.environ:
        folder = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        threading.Thread(target=migrated_once, args=(folder,)).start()


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let the one printed seed of the run decide the examples of Hypothesis as well."""
    if config.getoption("--hypothesis-seed") is None:
        # Absent under `-p no:randomly`; Hypothesis then draws a seed and prints it with a failure.
        hypothesis.core.global_force_seed = config.getoption("randomly_seed", None)
    forks.allow_database = config.stash[blocking_manager_key].unblock


def pytest_report_header(config: pytest.Config) -> list[str]:
    profile = os.environ.get("HYPOTHESIS_PROFILE", "default")
    if is_mariadb():
        cache = "Redis" if os.environ["REDIS_URL"] else "local memory"
        database = f"database: MariaDB, cache: {cache}; tests of every mark run"
    else:
        database = (
            "database: SQLite; tests marked mariadb are left out, "
            "`python -m tests.servers -- pytest` runs them"
        )
    return [database, f"hypothesis: profile {profile}, examples follow --randomly-seed"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    other = "sqlite" if is_mariadb() else "mariadb"
    left_out = [item for item in items if item.get_closest_marker(other)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    places = _places(dict.fromkeys(item.path for item in items))
    items.sort(key=lambda item: places[item.path])


def _places(files: Iterable[Path]) -> dict[Path, float]:
    """Where each file comes: among QUICK_FOR_SLOW others one whose tests mostly wait for whole
    processes or browsers, so that the cores have work meanwhile, and none of these at the end."""
    slow, quick = list[Path](), list[Path]()
    for file in files:
        (slow if any(map(file.is_relative_to, SLOW)) else quick).append(file)
    waiting = {file: number * QUICK_FOR_SLOW - 0.5 for number, file in enumerate(slow)}
    return waiting | {file: float(number) for number, file in enumerate(quick)}


def pytest_collection_finish() -> None:
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Escape lone surrogates, which tests log on purpose and xdist cannot send."""
    return _escaped((yield))


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {key: _escaped(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_escaped(item) for item in value)
    return value


@pytest.fixture(scope="session")
def django_db_setup(
    django_test_environment: None,
    django_db_blocker: DjangoDbBlocker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """In place of pytest-django's: a copy of the one database that this run has migrated.

    On SQLite a file in place of memory, so that threads meet as processes do: in WAL mode.
    """
    from django.db import connection
    from django.test.utils import setup_databases, teardown_databases

    from apps.common import ids
    from tests.emptying import empty_database

    migrated = migrated_once(run_folder(tmp_path_factory))
    name = f"test_taskplatform_{secrets.token_hex(4)}"
    if is_mariadb():
        execute_mysql(migrated, f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        copy_database(migrated, urlsplit(migrated)._replace(path=f"/{name}").geturl())
    else:
        name = str(VAR_DIR / "test.sqlite3")
        copy_database(migrated, f"sqlite:///{name}")
    connection.settings_dict["TEST"]["NAME"] = name
    with django_db_blocker.unblock():
        made = setup_databases(verbosity=0, interactive=False, keepdb=True)
        # Tests make the types that they want; `migrate` has made those of all handlers.
        empty_database()
        # Those of the other makers of tests are taken for ever, too.
        ids._maker._lease = id_maker(node=0)._lease
    yield
    with django_db_blocker.unblock():
        teardown_databases(made, verbosity=0)


@pytest.fixture(scope="session", autouse=True)
def plain_settings() -> Iterator[None]:
    """Pages without collected static files, passwords without the cost of hashing, and jobs that
    may call no address, on any database.

    Redis may take long on a busy machine; tests of short timeouts use servers of their own.
    """
    from django.test import override_settings

    staticfiles = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    cache = django_settings.CACHES["default"]
    if os.environ["REDIS_URL"]:
        patience = {"SOCKET_CONNECT_TIMEOUT": 60.0, "SOCKET_TIMEOUT": 60.0}
        cache = {**cache, "OPTIONS": {**cache["OPTIONS"], **patience}}
    with override_settings(
        STORAGES={**django_settings.STORAGES, "staticfiles": staticfiles},
        # Each client of a test would read the whole folder of collected files.
        WHITENOISE_AUTOREFRESH=True,
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        JOB_HTTP_HOSTS=(),
        JOB_HTTP_NETWORKS=(),
        CACHES={"default": cache},
    ):
        yield


@pytest.fixture(scope="session", autouse=True)
def patched_product() -> Iterator[None]:
    """What would disturb all tests. In one fixture, because each costs every test some time."""
    from django.test import TransactionTestCase

    from apps.common import clock, tidy
    from apps.common.masking import names
    from apps.dispatch.services import silent_people
    from apps.reports.admin.overview import page, tables
    from apps.reports.services import causes, counts_by_minute, fact_sheet, lately, of_type
    from apps.reports.watches import troubles
    from taskplatform import badges
    from tests.emptying import empty_database

    with pytest.MonkeyPatch.context() as patch:
        # The clock syncs with each new connection only, and no schema is read for names of secrets
        # (tests of them use `declared_secrets`): not while a test counts statements.
        patch.setattr(clock, "RESYNC_SECONDS", 3600.0)
        patch.setattr(names, "_sources", [])
        patch.setattr(tidy, "LONGEST_REST", 0.0)
        # Each page of a test shows what the test has just done.
        facts = (fact_sheet.sheets, troubles.found, causes.found, *of_type.CACHES)
        hourly = (lately.hours, lately.yesterdays, tables.groups_kept)
        hourly += (page.steps_kept, counts_by_minute.kept)
        for kept in (silent_people.cached, *hourly, *facts):
            patch.setattr(kept, "seconds", 0.0)
        # Nor the badges of the menu: tests of them read them again (`with_badges`).
        ALL_BADGES.update(badges._READ)
        patch.setattr(badges, "_READ", {})
        # After each test that commits.
        patch.setattr(TransactionTestCase, "_fixture_teardown", empty_database)
        yield


@pytest.fixture
def with_badges(monkeypatch: pytest.MonkeyPatch) -> None:
    """The menu has its badges, as in every process, read anew for each page."""
    from taskplatform import badges

    monkeypatch.setattr(badges, "_READ", ALL_BADGES)
    monkeypatch.setattr(badges.counted, "seconds", 0.0)


@pytest.fixture
def declared_secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Properties of schemas that say `"secret": true` are masked, as in every process."""
    from apps.common.masking import names
    from apps.dispatch.models import Template
    from apps.jobs.services.types import schemas_with_secrets

    sources = [Template.objects.schemas_with_secrets, schemas_with_secrets]
    monkeypatch.setattr(names, "_sources", sources)
    names.forget_declared()
    yield
    names.forget_declared()


@pytest.fixture(autouse=True)
def fresh_process_state() -> Iterator[None]:
    """Nothing cached and no language chosen by the test before."""
    from django.utils import translation

    clear_caches()
    with translation.override("en"):
        yield


@pytest.fixture
def frozen_clock(monkeypatch: pytest.MonkeyPatch) -> FrozenClock:
    """`apps.common.clock.now()` stays at Monday 2026-03-02 09:00 UTC until the test moves it."""
    from apps.common import clock, ids

    frozen = FrozenClock(datetime(2026, 3, 2, 9, tzinfo=UTC))
    monkeypatch.setattr(clock, "now", frozen)
    # Ids never go back within one maker, and those made so far are from the real present.
    monkeypatch.setattr(ids, "_maker", id_maker(node=1))
    return frozen


@pytest.fixture
def make_key(db: None) -> Callable[..., str]:
    """`make_key(scopes=["pull"], executors=["uid_alice"])` gives `<client-id>.<secret>`.

    Without arguments the key has every scope and is bound to nothing. Further arguments are those
    of `apps.access.services.create_client`.
    """
    from apps.access import services
    from apps.access.rules.clients import Scope

    def make_key(scopes: Iterable[str] = tuple(Scope), **terms: Any) -> str:
        terms = {"name": "Test client", "actor": "test", **terms}
        _, key = services.create_client(scopes=scopes, **terms)
        return key

    return make_key


@pytest.fixture
def api(make_key: Callable[..., str]) -> JsonClient:
    """The REST API with a key of every scope: `api.post("/api/v1/dispatch/", {…}).json()`."""
    return JsonClient(make_key())


@pytest.fixture
def api_with() -> Callable[..., JsonClient]:
    """`api_with(key)` is the REST API with that key, `api_with(None)` without any."""
    return JsonClient


def _signed_in(user: Any) -> Any:
    """Has the session of a sign-in without signing in, which asks and writes three times as much:
    tests of that sign in by the form."""
    from django.contrib import auth
    from django.contrib.sessions.backends.db import SessionStore
    from django.test import Client

    session, client = SessionStore(), Client()
    session[auth.SESSION_KEY] = str(user.pk)
    session[auth.BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[auth.HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    client.cookies[django_settings.SESSION_COOKIE_NAME] = session.session_key
    return client


@pytest.fixture
def admin_client(admin_user: Any) -> Any:
    """Django's test client signed in as a superuser."""
    return _signed_in(admin_user)


@pytest.fixture
def role_user(db: None) -> Callable[[str], Any]:
    """`role_user("operator")` is a staff user with that role: viewer, operator or configurer.

    A `blind` one may what operators may, but for seeing params, contexts and results.
    """
    from django.contrib.auth.models import Group, Permission, User

    def role_user(role: str) -> User:
        user, _ = User.objects.get_or_create(username=role, defaults={"is_staff": True})
        if role == "blind":
            held = Permission.objects.filter(group__name="operator")
            user.user_permissions.set(held.exclude(codename="view_payload"))
        else:
            user.groups.add(Group.objects.get(name=role))
        return user

    return role_user


@pytest.fixture
def role_client(role_user: Callable[[str], Any]) -> Callable[[str], Any]:
    """`role_client("viewer")` is Django's test client signed in with that role."""
    return lambda role: _signed_in(role_user(role))


@pytest.fixture
def racers(transactional_db: None) -> Callable[[Sequence[Callable[[], Any]]], Race]:
    """`racers([call] * 50)` runs all calls at once, each with its own database connection."""
    return race


@pytest.fixture
def sent_sweeps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sweeps that scans have started."""
    names: list[str] = []
    monkeypatch.setattr(
        "apps.jobs.runner.scan.current_app.send_task", lambda name, **_options: names.append(name)
    )
    return names


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`handle("mail", function, …settings)` registers a handler and makes its type."""
    from apps.jobs.handlers import handler
    from apps.jobs.handlers.registry import known
    from tests.jobs import job_type

    monkeypatch.setattr(known, "handlers", dict(known.handlers))
    monkeypatch.setattr(known, "problems", [])

    def handle(name: str, function: Callable[..., Any], **settings: Any) -> None:
        handler(name)(function)
        job_type(name, handler=name, **settings)

    return handle
