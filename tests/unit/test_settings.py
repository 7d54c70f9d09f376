"""What the settings make of the environment: a default, a value, or a sentence."""

from __future__ import annotations

import errno
import io
import os
import runpy
from pathlib import Path
from typing import Any, ClassVar

import django
import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from environ import Env

from taskplatform.conf import ALL
from tests.environment import neutral

SOURCE = settings.BASE_DIR / "taskplatform" / "settings.py"


@pytest.fixture
def started(tmp_path: Path) -> Any:
    """The settings as a process with these variables, and without those that are None, has them."""

    def start(**variables: str | None) -> dict[str, Any]:
        given = neutral(tmp_path) | {"DATABASE_URL": "", "REDIS_URL": ""} | variables
        with pytest.MonkeyPatch.context() as patch:
            for name, value in given.items():
                patch.delenv(name, raising=False) if value is None else patch.setenv(name, value)
            return runpy.run_path(str(SOURCE))

    return start


def test_empty_variables_are_as_good_as_none(started: Any, tmp_path: Path) -> None:
    named = [*neutral(tmp_path), "DATABASE_URL", "REDIS_URL", "PORT", "HOST"]
    fixed = {"VAR_DIR": str(tmp_path), "SECRET_KEY": "k" * 50}

    empty = started(**dict.fromkeys(named, "") | fixed)
    absent = started(**dict.fromkeys(named) | fixed)

    names = {name for name in absent if name.isupper()}
    assert {name: empty[name] for name in names} == {name: absent[name] for name in names}
    assert empty["ALLOWED_HOSTS"] == ["127.0.0.1", "localhost", "[::1]"]


def test_shell_of_the_developer_decides_nothing_in_tests(
    started: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = started()
    for conf in ALL:
        for name, setting in conf.declared().items():
            monkeypatch.setenv(name, "of the shell")
            if setting.is_secret:
                monkeypatch.setenv(f"{name}_FILE", "/of/the/shell")

    beside = started()

    names = {name for name in alone if name.isupper()}
    assert {name: beside[name] for name in names} == {name: alone[name] for name in names}


def test_lists_bear_blanks(started: Any) -> None:
    found = started(
        ALLOWED_HOSTS="tasks.example.org, .example.com,192.0.2.7 ,[2001:db8::7],*",
        CSRF_TRUSTED_ORIGINS="https://a.example , https://b.example,",
        EXTRA_APPS=" json ,",
    )

    assert found["ALLOWED_HOSTS"] == [
        "tasks.example.org",
        ".example.com",
        "192.0.2.7",
        "[2001:db8::7]",
        "*",
    ]
    assert found["CSRF_TRUSTED_ORIGINS"] == ["https://a.example", "https://b.example"]
    assert found["INSTALLED_APPS"][-1] == "json"


def test_machine_is_used_by_its_cores(
    subtests: pytest.Subtests, started: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for cores, redis, web, slots in (
        (1, "redis://127.0.0.1", 1, 4),
        (2, "redis://127.0.0.1", 1, 4),
        (8, "redis://127.0.0.1", 4, 16),
        # Limits are counted by one process.
        (8, "", 1, 16),
        (None, "", 1, 4),
    ):
        with subtests.test(cores=cores, redis=redis):
            monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
            found = started(WEB_WORKERS="", WORKER_SLOTS="", REDIS_URL=redis)
            assert (found["WEB_WORKERS"], found["WORKER_SLOTS"]) == (web, slots)
    chosen = started(WEB_WORKERS="3", WORKER_SLOTS="7")
    assert (chosen["WEB_WORKERS"], chosen["WORKER_SLOTS"]) == (3, 7)
    assert chosen["CELERY_WORKER_CONCURRENCY"] == 7


def test_secrets_stand_in_files_of_their_own(
    subtests: pytest.Subtests, started: Any, tmp_path: Path
) -> None:
    values = {
        "SECRET_KEY": "k" * 60,
        "SECRET_KEY_FALLBACKS": "old",
        "DATABASE_URL": "mysql://u:p@127.0.0.1/t",
        "REDIS_URL": "redis://:p@127.0.0.1:6379/0",
        "EMAIL_URL": "smtp://ann:p@mail.example.org",
        "JOURNAL_SINKS": "files=file:///var/lib/journal",
    }
    secrets = (each for conf in ALL for each in conf.declared().values() if each.is_secret)
    assert set(values) == {each.name for each in secrets}
    for name, value in values.items():
        with subtests.test(name=name):
            file = tmp_path / name.lower()
            file.write_text(f"{value}\n")
            kept = started(**{name: "", f"{name}_FILE": str(file)})
            told = started(**{name: value})
            names = [each for each in told if each.isupper()]
            assert {each: kept[each] for each in names} == {each: told[each] for each in names}

            with pytest.raises(ImproperlyConfigured, match=f"{name} and {name}_FILE are both set"):
                started(**{name: value, f"{name}_FILE": str(file)})
            file.write_text("\n")
            with pytest.raises(ImproperlyConfigured, match=f"{name}_FILE=.* is empty; write the"):
                started(**{name: "", f"{name}_FILE": str(file)})
            file.unlink()
            with pytest.raises(ImproperlyConfigured, match="cannot be read: No such file or dir"):
                started(**{name: "", f"{name}_FILE": str(file)})


def test_secret_is_taken_letter_by_letter(started: Any) -> None:
    assert started(SECRET_KEY="$" + "k" * 60)["SECRET_KEY"] == "$" + "k" * 60


def test_value_that_makes_no_sense_stops_the_start(subtests: pytest.Subtests, started: Any) -> None:
    for name, value, message in (
        ("ALLOWED_HOSTS", "https://tasks.example.org", "without https:// and without a port"),
        ("ALLOWED_HOSTS", "localhost,tasks.example.org:8000", "org:8000 is not a host"),
        ("ALLOWED_HOSTS", "*.example.org", r"such as .*\.example\.org for all subdomains"),
        ("DEBUG", "maybe", "DEBUG: 'maybe' is neither yes nor no. Allowed: 0 or 1"),
        (
            "HOST",
            "tasks.example.org",
            "HOST: 'tasks.example.org' does not appear to be an .*0.0.0.0",
        ),
        ("HOST", "0", "HOST: '0' does not appear to be an"),
        ("PORT", "80x", "PORT: '80x' is not a whole number. Allowed: 1 to 65535"),
        ("PORT", "65536", "PORT: 65536 is out of range. Allowed: 1 to 65535"),
        ("WEB_THREADS", "0", "Allowed: 1 to 100. How many requests"),
        ("WEB_WORKERS", "0", "WEB_WORKERS: 0 is out of range. Allowed: 1 to 64"),
        ("WORKER_SLOTS", "many", "WORKER_SLOTS: 'many' is not a whole number. Allowed: 1 to 512"),
        ("SECRET_KEY", "short", "SECRET_KEY: it is shorter than 50 characters; make one"),
        ("EXTRA_APPS", "json,nowhere.to.be", "there is no app nowhere.to.be"),
        (
            "TASK_QUEUES",
            "default,a b",
            "TASK_QUEUES: 'a b' is no name. Allowed: queues separ",
        ),
        ("DATABASE_URL", "postgres://u@h/n", "DATABASE_URL: it must start with mysql://"),
        ("DATABASE_URL", "sqlite://data.sqlite3", "must start with .* sqlite:///. Allowed: mysql"),
        ("DATABASE_URL", "sqlite:///", "DATABASE_URL: it does not end with a database"),
        ("DATABASE_URL", "mysql://u:p@h:3306/", "DATABASE_URL: it does not end with a database"),
        (
            "DATABASE_URL",
            "mysql://u:p@h:70000/n",
            "DATABASE_URL: it is not a valid address; ",
        ),
        ("REDIS_URL", "amqp://h", "REDIS_URL: it must start with redis://"),
        ("REDIS_URL", "redis://127.0.0.1:here/0", "REDIS_URL: it is not an address that ends"),
        ("REDIS_URL", "redis://:p#w@127.0.0.1:6379/0", "# % and @ of a password as %2F"),
        ("REDIS_URL", "redis:///0", "Allowed: redis://:password@127.0.0.1:6379/0"),
        ("PUBLIC_URL", "tasks.example.org", "Allowed: an address such as https://tasks.ex"),
        ("EMAIL_URL", "https://mail.example.org", "EMAIL_URL: it is no mail server; write /"),
        ("EMAIL_URL", "smtp://", "Allowed: a server such as smtp"),
        ("TRUSTED_PROXIES", "10.0.0.4, proxy", "'proxy' does not appear .* such as 10.0.0.4 or"),
        ("TRUSTED_PROXIES", "10.0.0.4/24", "has host bits set. Allowed: addresses such as"),
        ("LANGUAGE_CODE", "de", "LANGUAGE_CODE: de is none of them. Allowed: en, zh-hans"),
        ("TIME_ZONE", "Mars/Base", "TIME_ZONE: .*Allowed: a time zone such as"),
        ("LOG_LEVEL", "loud", "Allowed: DEBUG, INFO, WARNING, ERROR, CRITICAL"),
        ("LOG_FORMAT", "xml", "LOG_FORMAT: xml is none of them. Allowed: text, json"),
        ("EXPIRY_BATCH", "0", "EXPIRY_BATCH: 0 is out of range. Allowed: 1 to 5000"),
    ):
        with subtests.test(name=name, value=value):
            with pytest.raises(ImproperlyConfigured, match=message):
                started(**{name: value})


def test_file_for_production_starts(started: Any, tmp_path: Path) -> None:
    class Read(Env):
        ENVIRON: ClassVar[dict[str, str]] = {}

    shown = (settings.BASE_DIR / "taskplatform/deploy/production.env").read_text()
    Read.read_env(io.StringIO(shown.replace("…", "secret" * 10)))

    found = started(**Read.ENVIRON | {"VAR_DIR": str(tmp_path)})

    assert found["SECRET_KEY"] == "secret" * 10
    assert found["HTTPS"] and found["ALLOWED_HOSTS"][0] == "tasks.example.org"
    assert found["DATABASES"]["default"]["NAME"] == "taskplatform"
    assert found["TRUSTED_PROXIES"] == ("10.0.0.4/32",)


def test_ports_of_this_machine_are_known_by_its_names(started: Any) -> None:
    """Whatever the platform is called elsewhere: addresses are written into the workers there."""
    named = started(ALLOWED_HOSTS="tasks.example.org", ASYNCFLOW_PORTS="g1:41555")

    assert named["ASYNCFLOW_PORTS"] == (("g1", 41555),)
    assert named["ALLOWED_HOSTS"] == ["tasks.example.org", "127.0.0.1", "localhost"]
    assert started(ALLOWED_HOSTS="tasks.example.org", ASYNCFLOW_PORTS="")["ALLOWED_HOSTS"] == [
        "tasks.example.org"
    ]


def test_folder_that_is_made_is_its_owners_alone(started: Any, tmp_path: Path) -> None:
    """The file of SQLite in it, which anybody could read, has the sessions of all who are in."""
    started(VAR_DIR=str(tmp_path / "new"))

    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_folder_that_cannot_be_made_stops_the_start(started: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ImproperlyConfigured, match="cannot be created: Not a directory; name a"):
        started(VAR_DIR=str(tmp_path / "file" / "below"))


def test_folder_and_key_of_another_user_stop_the_start(
    started: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root may do everything, so it is the answers of the system that are changed.
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
        with pytest.raises(ImproperlyConfigured, match=r"is not writable; .* \(chown -R\)"):
            started()

    key, read = tmp_path / "secret_key", Path.read_text

    def refuse(path: Path) -> str:
        if path == key:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return read(path)

    key.write_text("k" * 60)
    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(ImproperlyConfigured, match=r"/secret_key is not readable; start as its"):
        started(SECRET_KEY="")


def test_part_of_a_password_is_not_shown(started: Any) -> None:
    with pytest.raises(ImproperlyConfigured) as stop:
        started(DATABASE_URL="mysql://u:geheim/nis@127.0.0.1:3306/n")

    assert "%2F" in str(stop.value)
    assert "geheim" not in str(stop.value)
    assert stop.value.__suppress_context__


def test_file_of_sqlite_is_found_wherever_the_platform_lies(started: Any, tmp_path: Path) -> None:
    odd = tmp_path / "c++ #1 100%41?"

    database = started(VAR_DIR=str(odd))["DATABASES"]["default"]

    assert database["NAME"] == f"{odd}/taskplatform.sqlite3"


def test_path_of_sqlite_does_not_hang_on_where_a_command_runs(
    started: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    below = started(DATABASE_URL="sqlite:///data/tasks.sqlite3")["DATABASES"]["default"]["NAME"]
    absolute = started(DATABASE_URL="sqlite:////srv/t.sqlite3")["DATABASES"]["default"]["NAME"]

    assert (below, absolute) == (f"{settings.BASE_DIR}/data/tasks.sqlite3", "/srv/t.sqlite3")


def test_demo_is_made_by_itself_only_where_nothing_else_can_be_meant(
    subtests: pytest.Subtests, started: Any
) -> None:
    for variables, demo in (
        ({}, True),
        ({"HOST": "::1"}, True),
        ({"DEMO": "0"}, False),
        ({"HTTPS": "1"}, False),
        ({"HOST": "0.0.0.0"}, False),  # noqa: S104
        ({"DATABASE_URL": "mysql://u:p@127.0.0.1/t"}, False),
        ({"DATABASE_URL": "mysql://u:p@127.0.0.1/t", "HTTPS": "1", "DEMO": "1"}, True),
    ):
        with subtests.test(variables=variables):
            assert started(**variables)["DEMO"] is demo


def test_browsers_list_the_domain_only_by_choice(started: Any) -> None:
    secure = started(HTTPS="1")

    assert secure["SECURE_HSTS_SECONDS"] > 0
    assert secure["SECURE_HSTS_PRELOAD"] is False
    assert started(HTTPS="1", HSTS_PRELOAD="1")["SECURE_HSTS_PRELOAD"] is True


def test_jobs_may_call_the_platform_of_one_machine_only_unless_set_otherwise(
    subtests: pytest.Subtests, started: Any
) -> None:
    for variables, allowed in (
        ({}, True),
        ({"HOST": "localhost"}, True),
        ({"HOST": "0.0.0.0"}, False),  # noqa: S104
        ({"HOST": "10.0.0.2"}, False),
        ({"HOST": "::1"}, False),
        ({"DATABASE_URL": "mysql://u:p@127.0.0.1/t"}, False),
        ({"JOB_HTTP_HOSTS": "none"}, False),
        ({"JOB_HTTP_HOSTS": "api.example.com"}, False),
        ({"JOB_HTTP_NETWORKS": "10.0.0.0/8"}, False),
    ):
        with subtests.test(variables=variables):
            found = started(PORT="8123", **{"HOST": "127.0.0.1"} | variables)
            assert "localhost" != found["HOST"]  # The server takes addresses alone.
            own = found["JOB_HTTP_HOSTS"] == ("127.0.0.1:8123",)
            assert (own, "127.0.0.1/32" in found["JOB_HTTP_NETWORKS"]) == (allowed, allowed)


def test_redis_is_named_in_any_way_that_it_takes(subtests: pytest.Subtests, started: Any) -> None:
    for url in (
        "redis://127.0.0.1",
        "redis://10.0.0.6:6379/",
        "rediss://user:p%40w@redis.example.org:6380/15?ssl_cert_reqs=required",
        "redis://[::1]:6379/3",
    ):
        with subtests.test(url=url):
            assert started(REDIS_URL=url)["REDIS_URL"] == url


def test_secret_is_made_once_and_kept_from_others(started: Any, tmp_path: Path) -> None:
    first, second = (started(SECRET_KEY="")["SECRET_KEY"] for _ in range(2))

    assert first == second
    assert len(first) >= 50
    assert (tmp_path / "secret_key").stat().st_mode & 0o777 == 0o600


# --- mail and links -------------------------------------------------------------------------------
EMAIL_SETTINGS = {
    "host": "EMAIL_HOST",
    "port": "EMAIL_PORT",
    "username": "EMAIL_HOST_USER",
    "password": "EMAIL_HOST_PASSWORD",
    "use_tls": "EMAIL_USE_TLS",
    "use_ssl": "EMAIL_USE_SSL",
    "timeout": "EMAIL_TIMEOUT",
}


def test_mail_server(subtests: pytest.Subtests, started: Any) -> None:
    for url, port, tls, ssl in (
        ("smtp://mail.example.org", 25, False, False),
        ("smtp+tls://ann:p%40ss@mail.example.org", 587, True, False),
        ("smtp+ssl://ann:p%40ss@mail.example.org", 465, False, True),
        ("smtp+tls://mail.example.org:2525", 2525, True, False),
    ):
        with subtests.test(url=url):
            found = started(EMAIL_URL=url)
            if django.VERSION >= (6, 1):
                server = found["MAILERS"]["default"]["OPTIONS"]
            else:
                server = {name: found[setting] for name, setting in EMAIL_SETTINGS.items()}
            assert server == {
                "host": "mail.example.org",
                "port": port,
                "username": "ann" if "@" in url else "",
                "password": "p@ss" if "@" in url else "",
                "use_tls": tls,
                "use_ssl": ssl,
                "timeout": 10,
            }
            assert found["MAIL_HOST"] == "mail.example.org"
    assert started()["MAIL_HOST"] == ""


def test_links_begin_with_the_public_address(started: Any) -> None:
    assert started(PORT="8123")["PUBLIC_URL"] == "http://127.0.0.1:8123"
    assert started(PUBLIC_URL="https://t.example.org/")["PUBLIC_URL"] == "https://t.example.org"
