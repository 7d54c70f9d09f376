"""The check of the sinks by `manage.py check`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from django.core.checks import CheckMessage, Error

from apps.journal.conf import conf


def check_sinks(**_kwargs: Any) -> list[CheckMessage]:
    """An error if there is a sink for Kafka without the package that it needs."""
    kafka = [each.name for each in conf.JOURNAL_SINKS if each.parts.scheme == "kafka"]
    if not kafka or find_spec("confluent_kafka"):
        return []
    return [
        Error(
            f"JOURNAL_SINKS: {', '.join(kafka)} needs the package confluent-kafka.",
            hint="Install it: .venv/bin/pip install 'confluent-kafka>=2.16,<3'",
            id="journal.E001",
        )
    ]
