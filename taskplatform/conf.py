"""The settings of the platform itself, and the list of all that read the environment."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.exceptions import ImproperlyConfigured

from apps.access.conf import AccessConf
from apps.alerts.conf import AlertsConf
from apps.asyncflow.conf import AsyncflowConf
from apps.bulk.conf import BulkConf
from apps.common.conf import (
    CommonConf,
    Conf,
    Setting,
    flag,
    integer,
    names,
    parse_names,
    parse_networks,
)
from apps.dispatch.conf import DispatchConf
from apps.flows.conf import FlowsConf
from apps.jobs.conf import JobsConf
from apps.journal.conf import JournalConf
from apps.reports.conf import ReportsConf
from taskplatform import environment

_EMBEDDED = "with SQLite on 127.0.0.1"


def _one_of(
    default: str, allowed: Sequence[str], meaning: str, *, usual: str = "", example: str = ""
) -> Setting[str]:
    """A setting that is one of the words, in any mix of upper and lower case."""
    words = {word.lower(): word for word in allowed}

    def parse(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"{text} is none of them")
        return words[text.lower()]

    return Setting(default, parse, ", ".join(allowed), meaning, usual=usual, example=example)


class WebConf(Conf):
    title = "Web"

    PORT = integer(8000, "Port at which the web processes listen.", minimum=1, maximum=65_535)
    HOST = Setting(
        "127.0.0.1",
        environment.parse_address,
        "an address of this machine, 0.0.0.0 for all of them",
        "Address at which the web processes listen.",
    )
    WEB_WORKERS = integer(
        1,
        "Web processes of this machine; without Redis each counts wrong keys, passwords and calls "
        "by itself, so that limits let through as many times as much.",
        minimum=1,
        maximum=64,
        usual="half the cores with Redis, 1 without it",
    )
    WORKER_SLOTS = integer(
        4,
        "How many jobs this machine runs at once: `make run` shares them among processes of 4 to "
        "7, any other Celery worker without `--concurrency` has so many.",
        minimum=1,
        maximum=512,
        usual="twice the cores, at least 4",
    )
    WEB_THREADS = integer(
        4,
        "How many requests each web process works on at once; one more hashes passwords, and one "
        "makes files.",
        minimum=1,
        maximum=100,
    )
    PUBLIC_URL = Setting(
        "",
        environment.parse_web_address,
        "an address such as https://tasks.example.org",
        "Where people reach the platform, for links in messages.",
        usual="`http://127.0.0.1:PORT`",
        example="https://tasks.example.org",
    )
    ALLOWED_HOSTS = Setting(
        "127.0.0.1,localhost,[::1]",
        environment.parse_hosts,
        "names such as tasks.example.org, .example.org for all subdomains, 192.0.2.7 or "
        "[2001:db8::7], separated by commas, without https:// and without a port",
        "Names under which the platform is reached.",
    )
    CSRF_TRUSTED_ORIGINS = names(
        (),
        "origins such as https://tasks.example.org, separated by commas",
        "Origins of a proxy that changes the host name.",
    )
    TRUSTED_PROXIES = Setting(
        "",
        parse_networks,
        "addresses such as 10.0.0.4 or networks such as 10.0.0.0/24, separated by commas",
        "Proxies whose `X-Forwarded-For` is believed; without it everybody behind a proxy has its "
        "address, and five wrong passwords of one person close a name on all devices that it has "
        "not signed in on.",
        example="10.0.0.4",
    )
    HTTPS = flag(
        "1 behind TLS: secure cookies, HSTS; pages are redirected, API calls without TLS refused."
    )
    HSTS_PRELOAD = flag(
        "1 agrees that browsers list the domain as one of HTTPS alone, for months and with all "
        "subdomains."
    )


class StorageConf(Conf):
    title = "Storage"

    VAR_DIR = Setting(
        "var",
        environment.parse_folder,
        "a writable folder",
        "Everything that the platform writes: SQLite file, logs, keys, what workers are running; "
        "`make run` lets only its owner read it.",
    )
    DATABASE_URL = Setting(
        "",
        environment.parse_database,
        "mysql://user:password@127.0.0.1:3306/taskplatform or "
        "sqlite:////srv/tasks/taskplatform.sqlite3, with signs such as `/`, `?`, `@` in a password "
        "as `%2F`, `%3F`, `%40`",
        "The database, which must exist.",
        usual="SQLite in `VAR_DIR`",
        example="mysql://user:password@127.0.0.1:3306/taskplatform",
        is_secret=True,
    )
    REDIS_URL = Setting(
        "",
        environment.parse_redis,
        "redis://:password@127.0.0.1:6379/0 or rediss://…",
        "Cache and broker; a database number of its own for each platform that shares a Redis.",
        usual="none: memory and files",
        example="redis://:password@127.0.0.1:6379/0",
        is_secret=True,
    )
    DEMO = flag(
        "Whether `make run` makes demo data and a key for them at the first start.",
        usual=f"1 {_EMBEDDED} and without `HTTPS=1`, else 0",
    )


class SecurityConf(Conf):
    title = "Secrets and errors"

    SECRET_KEY = Setting(
        "",
        environment.parse_secret,
        f"at least {environment.MIN_SECRET} characters",
        "Signs sessions and seals secrets in the database; the same on every machine. To change "
        "it, move the old one to `SECRET_KEY_FALLBACKS`.",
        usual="made at the first start, in `VAR_DIR`",
        example="at-least-fifty-random-characters",
        is_secret=True,
    )
    SECRET_KEY_FALLBACKS = Setting(
        "",
        parse_names,
        "keys, separated by commas",
        "Older keys while changing it.",
        is_secret=True,
    )
    DEBUG = flag("1 shows error pages with source text: never on a server.")
    LOG_LEVEL = _one_of(
        "INFO",
        ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
        "Which lines are written to standard error.",
    )
    LOG_FORMAT = _one_of(
        "",
        ("text", "json"),
        "`text` for people or `json` for programs; each line carries the request, dispatch, job "
        "and trace (`traceparent`) that it is about.",
        usual=f"text {_EMBEDDED}, else json",
        example="json",
    )


class PeopleConf(Conf):
    title = "People and mail"

    TIME_ZONE = Setting(
        "UTC",
        environment.parse_zone_name,
        "a time zone such as Asia/Shanghai",
        "Zone of rules, and of pages for people who have none of their own.",
    )
    LANGUAGE_CODE = _one_of(
        "en", ("en", "zh-hans"), "Language of pages for browsers that ask for neither."
    )
    EMAIL_URL = Setting(
        "",
        environment.parse_mail,
        "a server such as smtp+tls://user:password@mail.example.org:587, "
        "smtp+ssl://mail.example.org:465 or smtp://mail.example.org",
        "Server of the mails of alerts and reports; without one none is sent.",
        example="smtp+tls://user:password@mail.example.org:587",
        is_secret=True,
    )
    EMAIL_FROM = Setting(
        "taskplatform@localhost", str, "an address of mail", "Sender of these mails."
    )


class AppsConf(Conf):
    title = "Apps of your own"

    EXTRA_APPS = Setting(
        "",
        environment.parse_apps,
        "installed Django apps, separated by commas",
        "Django apps of your own, with job handlers in `handlers.py`.",
        example="shop,billing",
    )
    TASK_QUEUES = Setting(
        "default,slow",
        environment.parse_keys,
        "queues separated by commas, such as default,slow,mails",
        "Queues of Django's Tasks API, which is the package `django-tasks` before Django 6. Types "
        "of the tasks of the queue `slow` begin in the slow lane, all others in the fast one.",
    )
    TASK_OPEN = Setting(
        "",
        environment.parse_keys,
        "names of job types separated by commas",
        "Types of Django's tasks whose jobs keys, pages and schedules may submit, with any "
        "arguments.",
        example="shop.send_receipt",
    )


# settings.py reads one by one what the settings of Django are made of.
OF_DJANGO = (WebConf, StorageConf, SecurityConf, PeopleConf, AppsConf)
OF_APPS = (
    *(DispatchConf, JobsConf, FlowsConf, AsyncflowConf, AlertsConf, BulkConf),
    *(JournalConf, ReportsConf, AccessConf, CommonConf),
)
ALL: tuple[type[Conf], ...] = (*OF_DJANGO, *OF_APPS)


def require_platform(command: str) -> None:
    """Stop a command that works on the data of a platform where there is none.

    Before the settings are read, which create the folder.
    """
    path, named = StorageConf.VAR_DIR.given(), StorageConf.VAR_DIR.text()
    if StorageConf.DATABASE_URL.text() or (path / environment.DATABASE_FILE).exists():
        return
    asked = f"VAR_DIR={path}" if named else f"{path}, which is used without VAR_DIR"
    raise ImproperlyConfigured(
        f"There is no platform in {asked}: it has no database. Name the folder of the platform "
        f"(VAR_DIR=/srv/tasks … manage.py {command}, or VAR_DIR in .env) or its DATABASE_URL; or "
        "make one there with: make run"
    )
