"""Settings of the task platform; every value that differs between machines comes from the
environment or `.env`, as conf.py declares it."""

from __future__ import annotations

import logging
import os
import sys
import tomllib
from datetime import timedelta
from typing import Any

from django.urls import reverse_lazy
from whitenoise.compress import Compressor

from apps.common.fields import COLLATION
from apps.jobs.conf import JobsConf
from taskplatform import environment, theme
from taskplatform.conf import (
    OF_APPS,
    AppsConf,
    PeopleConf,
    SecurityConf,
    StorageConf,
    WebConf,
)
from taskplatform.environment import BASE_DIR

VAR_DIR = environment.make_folder("VAR_DIR", StorageConf.VAR_DIR.given())
RELEASE: str = tomllib.loads((BASE_DIR / "pyproject.toml").read_text())["project"]["version"]

# --- Security -------------------------------------------------------------------------------
DEBUG = SecurityConf.DEBUG.given()
SECRET_KEY = SecurityConf.SECRET_KEY.read(
    SecurityConf.SECRET_KEY.text() or environment.kept_secret(VAR_DIR / "secret_key")
)
SECRET_KEY_FALLBACKS = [*SecurityConf.SECRET_KEY_FALLBACKS.given()]
ALLOWED_HOSTS = [*WebConf.ALLOWED_HOSTS.given()]
CSRF_FAILURE_VIEW = "apps.common.api.problems.csrf_failure"
CSRF_TRUSTED_ORIGINS = [*WebConf.CSRF_TRUSTED_ORIGINS.given()]
PORT = WebConf.PORT.given()
HOST = WebConf.HOST.given()
# Processes and slots of this machine. Without Redis each web process counts wrong keys, passwords
# and calls by itself, so there are several only where they are wanted.
_cores = os.cpu_count() or 1
_web_workers = max(1, _cores // 2) if StorageConf.REDIS_URL.given() else 1
WEB_WORKERS = WebConf.WEB_WORKERS.given(default=str(_web_workers))
WORKER_SLOTS = WebConf.WORKER_SLOTS.given(default=str(max(4, _cores * 2)))
WEB_THREADS = WebConf.WEB_THREADS.given()
PUBLIC_URL = WebConf.PUBLIC_URL.given(default=f"http://127.0.0.1:{PORT}")
TRUSTED_PROXIES = WebConf.TRUSTED_PROXIES.given()

# One switch for all settings that require TLS.
HTTPS = WebConf.HTTPS.given()
SECURE_SSL_REDIRECT = HTTPS
# Load balancers check each process directly, without TLS.
SECURE_REDIRECT_EXEMPT = [r"^health/"]
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS
# A list inside of browsers, which a domain does not leave for months: never by itself.
SECURE_HSTS_PRELOAD = WebConf.HSTS_PRELOAD.given()
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_NAME = "__Host-sessionid" if HTTPS else "sessionid"
SESSION_COOKIE_AGE = 8 * 3600
SESSION_ENGINE = "apps.common.sessions"
# Messages are in the session, which holds long ones, and costs nothing without a session.
MESSAGE_STORAGE = "apps.common.admin.page_messages.PageMessages"
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None

# --- Applications ---------------------------------------------------------------------------
EXTRA_APPS = AppsConf.EXTRA_APPS.given()
INSTALLED_APPS = [
    # Basic: we have our own site, so the theme must not install its own.
    "unfold.apps.BasicAppConfig",
    "taskplatform.apps.PlatformAdminConfig",
    "taskplatform.apps.TaskPlatformConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "taskplatform.apps.PlatformStaticFilesConfig",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "taskplatform.apps.SignInConfig",
    "apps.common",
    "apps.journal",
    "apps.access",
    "apps.dispatch",
    "apps.jobs",
    "apps.schedules",
    "apps.flows",
    "apps.asyncflow",
    "apps.bulk",
    "apps.reports",
    "apps.alerts",
    *EXTRA_APPS,
]
# Apps of the platform itself whose `handlers.py` runs jobs.
HANDLER_APPS = ["apps.alerts", "apps.bulk"]
MIDDLEWARE = [
    "apps.common.api.middleware.CountingMiddleware",
    "apps.common.api.middleware.RequestIdMiddleware",
    "apps.common.api.middleware.HeadersMiddleware",
    # Outside of those that write answers.
    "apps.common.api.middleware.CompressionMiddleware",
    "apps.asyncflow.views.RefusalMiddleware",
    "apps.common.api.middleware.ProblemMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.common.CommonMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "apps.common.sessions.SessionMiddleware",
    "apps.common.api.middleware.LanguageMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "apps.common.sessions.PersonMiddleware",
    "taskplatform.long_forms.LongFormMiddleware",
    "apps.common.api.middleware.ZoneMiddleware",
    "taskplatform.people.PeopleMiddleware",
    "apps.common.admin.page_messages.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
]
ROOT_URLCONF = "taskplatform.urls"
WSGI_APPLICATION = "taskplatform.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

# --- Database: SQLite here, MariaDB/MySQL by DATABASE_URL --------------------------------------
IDLE_TRANSACTION_SECONDS = 300
_sqlite = {
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": str(VAR_DIR / environment.DATABASE_FILE),
}
DATABASES: dict[str, dict[str, Any]] = {"default": StorageConf.DATABASE_URL.given() or _sqlite}
_database = DATABASES["default"]
_database["CONN_MAX_AGE"] = None
_database["CONN_HEALTH_CHECKS"] = True
_engine: str = _database["ENGINE"]
if _engine.endswith("sqlite3"):
    _database["OPTIONS"] = {
        **_database.get("OPTIONS", {}),
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    }
else:
    _database["OPTIONS"] = {
        **_database.get("OPTIONS", {}),
        "charset": "utf8mb4",
        "collation": COLLATION,
        "isolation_level": "read committed",
        "connect_timeout": 5,
        # Without it the session runs in the server's zone and UTC comparisons are hours off.
        "init_command": (
            "SET time_zone='+00:00', sql_mode='STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'"
            # Without this the rows of a machine that went away in mid-transaction would be locked
            # for hours. MySQL knows no such limit and takes this for a comment.
            f" /*M! , idle_transaction_timeout={IDLE_TRANSACTION_SECONDS} */"
        ),
    }

# For one person at this machine: the port is not reachable from outside.
EMBEDDED = _engine.endswith("sqlite3") and HOST in {"127.0.0.1", "::1"} and not HTTPS

# Elsewhere the data may be real, and nobody wants a key with many scopes beside them.
DEMO = StorageConf.DEMO.given(default="1" if EMBEDDED else "0")

# MariaDB and MySQL have no partial indexes; VendorIndex makes another one there. HSTS_PRELOAD is a
# choice.
SILENCED_SYSTEM_CHECKS = ["models.W037", "security.W021"]

# --- Redis: cache, broker and wake-ups; without it local memory and files ------------------------
REDIS_URL = StorageConf.REDIS_URL.given()
if REDIS_URL:
    CACHES: dict[str, dict[str, Any]] = {
        "default": {
            "BACKEND": "apps.common.cache.BreakerRedisCache",
            "LOCATION": REDIS_URL,
            # Installations with a database each may share a Redis.
            "KEY_PREFIX": f"taskplatform:{DATABASES['default']['NAME']}",
            "OPTIONS": {
                "SOCKET_CONNECT_TIMEOUT": 0.3,
                "SOCKET_TIMEOUT": 0.3,
                # Unlike pickle, it cannot run code that an attacker put into Redis.
                "SERIALIZER": "django_redis.serializers.json.JSONSerializer",
            },
        }
    }
else:
    CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
            "OPTIONS": {"MAX_ENTRIES": 10_000},
        }
    }

# Django's Tasks API, its own or of the package django-tasks: what it enqueues are jobs.
TASKS = {
    "default": {
        "BACKEND": "apps.jobs.tasks_backend.JobsBackend",
        "QUEUES": [*AppsConf.TASK_QUEUES.given()],
        "OPTIONS": {"OPEN": [*AppsConf.TASK_OPEN.given()]},
    }
}

CELERY_BROKER_URL = REDIS_URL or "filesystem://localhost"
_QUEUE_DIR = VAR_DIR / "queue"
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, Any] = (
    {
        "max_retries": 0,
        "socket_timeout": 0.5,
        "socket_connect_timeout": 0.5,
        "visibility_timeout": 3600,
    }
    if REDIS_URL
    else {
        # Both folders are one: a file that one process sends is what another receives.
        "data_folder_in": str(_QUEUE_DIR),
        "data_folder_out": str(_QUEUE_DIR),
        "control_folder": str(VAR_DIR / "queue-control"),
        # Only sweeps and starting drains wait for messages: neither is in a hurry.
        "polling_interval": 0.25,
    }
)
CELERY_BROKER_TRANSPORT = f"taskplatform.{'redis_broker' if REDIS_URL else 'broker'}:Transport"
if not REDIS_URL:
    # Nobody has orders for the workers of one machine, and each look for some takes as long as one
    # for messages.
    CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
    for _folder in (_QUEUE_DIR, VAR_DIR / "queue-control"):
        _folder.mkdir(parents=True, exist_ok=True)
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_PUBLISH_RETRY = False
CELERY_TASK_DEFAULT_QUEUE = "sweeps"
CELERY_TASK_ROUTES = ["taskplatform.beat.route"]
CELERY_WORKER_CONCURRENCY = WORKER_SLOTS
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# Threads keep their connections, as those of the web do; taskplatform/celery.py checks them.
CELERY_DB_REUSE_MAX = sys.maxsize
CELERY_BEAT_SCHEDULER = "taskplatform.clockwork:Scheduler"
CELERY_TIMEZONE = "UTC"

# --- People: admin login ------------------------------------------------------------------------
AUTHENTICATION_BACKENDS = [
    "taskplatform.sign_ins.Backend",
    "taskplatform.limits.LimitsBackend",
    "django.contrib.auth.backends.ModelBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = reverse_lazy("admin:login")
LOGIN_REDIRECT_URL = reverse_lazy("admin:index")
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_RESET_ON_SUCCESS = True
AXES_LOCKOUT_CALLABLE = "taskplatform.site.locked_out"
AXES_WHITELIST_CALLABLE = "taskplatform.sign_ins.is_known"
AXES_ENABLE_ADMIN = False  # taskplatform/admin.py registers its models in the theme
AXES_VERBOSE = False

# --- Mail: alerts only; without a server none is sent -------------------------------------------
_mail = PeopleConf.EMAIL_URL.given()
MAIL_HOST: str = _mail.get("host", "")
globals().update(environment.mail_settings(_mail))
DEFAULT_FROM_EMAIL = PeopleConf.EMAIL_FROM.given()

# --- Language and time --------------------------------------------------------------------------
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LANGUAGE_CODE = PeopleConf.LANGUAGE_CODE.given()
LOCALE_PATHS = [
    BASE_DIR / "taskplatform" / "locale",
    # Texts that installed packages leave in English.
    BASE_DIR / "taskplatform" / "package_locale",
]
FORMAT_MODULE_PATH = ["taskplatform.formats"]
TIME_ZONE = PeopleConf.TIME_ZONE.given()

# --- Files --------------------------------------------------------------------------------------
STATIC_URL = "static/"
STATIC_ROOT = VAR_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Source maps are for developers; compressing them takes half the time of collectstatic.
WHITENOISE_SKIP_COMPRESS_EXTENSIONS = [*Compressor.SKIP_COMPRESS_EXTENSIONS, "map"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
DATA_UPLOAD_MAX_MEMORY_SIZE = 9 * 1024 * 1024
FILE_UPLOAD_MAX_MEMORY_SIZE = 9 * 1024 * 1024

# --- REST ---------------------------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["apps.access.authentication.ApiKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["apps.access.permissions.HasScope"],
    "DEFAULT_THROTTLE_CLASSES": ["apps.access.throttles.ClientRateThrottle"],
    "DEFAULT_PARSER_CLASSES": ["apps.common.api.parsers.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "apps.common.api.schema.ProblemSchema",
    # `?format=` is a parameter like any other unknown one.
    "URL_FORMAT_OVERRIDE": None,
    "EXCEPTION_HANDLER": "apps.common.api.problems.exception_handler",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "Task platform",
    "DESCRIPTION": "Pull tasks, call back, plan work, submit jobs. Ids of dispatches and jobs are "
    "decimal strings.",
    "VERSION": RELEASE,
    "SERVERS": [
        # First, as the page of the document calls it, and may call no other host.
        {"url": "/", "description": "The host that this document comes from."},
        {"url": PUBLIC_URL},
    ],
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_AUTHENTICATION": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    # Without it the page asks a validator on the internet about every schema not on localhost.
    "SWAGGER_UI_SETTINGS": {"deepLinking": True, "validatorUrl": None},
    "COMPONENT_SPLIT_REQUEST": True,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    # Names of enumerations that several fields share.
    "ENUM_NAME_OVERRIDES": {
        "DispatchState": "apps.dispatch.models.Dispatch.State",
        "FlowRunStatus": "apps.flows.models.FlowRun.Status",
        "FlowStepKind": "apps.flows.models.FlowStep.Kind",
        "FlowStepState": "apps.flows.models.FlowStep.State",
        "JobStatus": "apps.jobs.models.Job.Status",
        # As it was called before there were others.
        "KindEnum": "apps.dispatch.models.Executor.Kind",
        "Outcome": "apps.dispatch.services.pull.OUTCOMES",
        "TaskState": "apps.dispatch.api.shapes.STATES",
        "TaskStatus": "apps.dispatch.api.shapes.STATUSES",
        "TaskVerb": "apps.dispatch.rules.task_verbs.NAMES",
        "TemplateStatus": "apps.dispatch.models.Template.Status",
    },
}

UNFOLD = theme.UNFOLD

# --- Logs on standard error: for people at their own machine, for programs elsewhere -------------
LOG_LEVEL = SecurityConf.LOG_LEVEL.given()
LOG_FORMAT = SecurityConf.LOG_FORMAT.given(default="text" if EMBEDDED else "json")
LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {"()": "apps.common.logs.JsonFormatter"},
        "text": {"()": "apps.common.logs.TextFormatter"},
    },
    "filters": {"database_away": {"()": "apps.common.logs.DatabaseAway"}},
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT, "level": LOG_LEVEL},
        "job": {"class": "apps.jobs.runner.attempt_log.AttemptLogHandler"},
    },
    # The log of a job has all from INFO on, whatever the machine logs.
    "root": {
        "handlers": ["stderr", "job"],
        "level": min(LOG_LEVEL, "INFO", key=logging.getLevelNamesMapping().__getitem__),
    },
    "loggers": {
        "django.server": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
        # It masks who failed to sign in; taskplatform/people.py logs name and address.
        "axes": {"level": "ERROR"},
        # Sweeps run every second; only their failures are logged.
        "celery.beat": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING", "filters": ["database_away"]},
        # Clients get their mistakes as answers; operators only see failures of the platform.
        "django.request": {"level": "ERROR"},
        "django.security": {"level": "CRITICAL"},
    },
}

# Jobs may call the platform itself, as those of the demo do, where that opens nothing to others.
_given = dict(os.environ)
_http = {"JOB_HTTP_HOSTS": f"127.0.0.1:{PORT}", "JOB_HTTP_NETWORKS": "127.0.0.1/32"}
_is_own = _engine.endswith("sqlite3") and HOST == "127.0.0.1"
if _is_own and not (JobsConf.JOB_HTTP_HOSTS.text() or JobsConf.JOB_HTTP_NETWORKS.text()):
    _given |= _http
for _conf in OF_APPS:
    globals().update(_conf.from_environment(_given))
if globals()["ASYNCFLOW_PORTS"]:
    # By these names their clients know this machine, whatever others call it.
    ALLOWED_HOSTS = list(dict.fromkeys([*ALLOWED_HOSTS, "127.0.0.1", "localhost"]))
