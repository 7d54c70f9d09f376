"""The job type that carries out bulk runs, and the bounds of a run."""

from __future__ import annotations

from typing import Any

TYPE = "bulk"
TYPE_SETTINGS: dict[str, Any] = {
    "title": "Bulk run",
    "lane": "slow",
    "max_running": 2,
    "max_attempts": 10,
    "params_schema": {
        "type": "object",
        "properties": {"run": {"type": "integer", "minimum": 1}},
        "required": ["run"],
        "additionalProperties": False,
    },
}

# Rows per second.
RATE, MAX_RATE = 200, 1_000
# Rows that one transaction changes at most.
ROUND = 100
MAX_REASON = 500
