"""The environment of the tests and of the processes they start."""

from __future__ import annotations

from pathlib import Path

from apps.common.conf import Conf


def neutral(var_dir: Path) -> dict[str, str]:
    """Every variable that changes what the settings do, but for DATABASE_URL and REDIS_URL.

    All are named, so that neither the shell nor a .env of the developer decides anything.
    """
    return {
        "VAR_DIR": str(var_dir),
        "SECRET_KEY": "a-key-for-tests-" * 4,
        "SECRET_KEY_FALLBACKS": "",
        "ALLOWED_HOSTS": "127.0.0.1,localhost",
        "CSRF_TRUSTED_ORIGINS": "",
        "DEBUG": "0",
        "HTTPS": "0",
        "TRUSTED_PROXIES": "",
        "DEMO": "",
        "EXTRA_APPS": "",
        "TIME_ZONE": "UTC",
        "LANGUAGE_CODE": "en",
        "LOG_LEVEL": "INFO",
        "LOG_FORMAT": "",
        **dict.fromkeys(Conf.tunables(), ""),
    }
