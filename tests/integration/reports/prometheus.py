"""What `/metrics` says, as tests read it."""

from __future__ import annotations

from typing import Any

from django.test import Client
from prometheus_client.parser import text_string_to_metric_families


def samples(client: Client) -> dict[str, float]:
    """Each sample as `name{label=value,…}` without the prefix."""
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain; version=")
    return {
        name_of(sample).removeprefix("taskplatform_"): sample.value
        for family in text_string_to_metric_families(answer.content.decode())
        for sample in family.samples
    }


def name_of(sample: Any) -> str:
    labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
    return f"{sample.name}{{{labels}}}" if labels else str(sample.name)
