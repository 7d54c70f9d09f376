"""The demo's company, from company.json: keys of tasks and types are the fields of the models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# The actor who plans the demo's tasks, by which they are known.
ACTOR = "demo"
ANN = "uid_ann"

_DATA: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))

PEOPLE: dict[str, str] = _DATA["people"]
# Grace, Hugo and Nadia belong to two.
GROUPS: dict[str, dict[str, Any]] = _DATA["groups"]
SHOPS: list[str] = _DATA["shops"]
# `mishaps` are what the first hand-outs of a simulated run end as; they are few enough for the
# others to meet the quota.
ROUND: list[dict[str, Any]] = _DATA["round"]
# Planned with the round, but due only a day later.
TOMORROW: dict[str, Any] = _DATA["tomorrow"]
# When a rotation is planned, it has been due for `since_hours`; a rule of days without `at` is due
# at the time of day of its planning.
ROTATIONS: list[dict[str, Any]] = _DATA["rotations"]
JOB_TYPES: dict[str, dict[str, Any]] = _DATA["job_types"]
# What runs orders and their receipts, limited by shop: orders by how many are packed at once,
# receipts by how many go out in a minute. How many orders come at once, by shop: the first has so
# many that some are blocked for minutes, and the others do not wait for them.
ORDER_TYPES: dict[str, dict[str, Any]] = _DATA["order_types"]
ORDERS: dict[str, int] = _DATA["orders"]
# A recurring job.
SCHEDULE: dict[str, Any] = _DATA["schedule"]
# Types without a handler: workers over HTTP run their jobs. The last one is a pool.
OUTSIDE_TYPES: dict[str, dict[str, Any]] = _DATA["outside_types"]
# All the other jobs are of the first type. The failing ones read a number from a text.
JOBS: dict[str, dict[str, Any]] = _DATA["jobs"]
BULK_RUN: dict[str, Any] = _DATA["bulk_run"]
ALERT_RULES: list[dict[str, Any]] = _DATA["alert_rules"]
# The flow: its own groups, templates and types, the params of a run, and who starts it.
PRICE_ROUND: dict[str, Any] = _DATA["price_round"]


def _template(special: Mapping[str, Any]) -> dict[str, Any]:
    """The params of an inspection: shop and aisle, what is special to it, and a hint."""
    return {
        "type": "object",
        "properties": {
            "shop": {"type": "string", "title": "Shop", "minLength": 1, "maxLength": 80},
            "aisle": {"type": "integer", "title": "Aisle", "minimum": 0, "maximum": 60},
            **special,
            "hint": {"type": "string", "title": "Hint", "maxLength": 200},
        },
        "required": ["shop", *special],
        "additionalProperties": False,
    }


TEMPLATES = {name: _template(special) for name, special in _DATA["templates"].items()}
ROUND_TEMPLATES = {name: _template(each) for name, each in PRICE_ROUND["templates"].items()}


def shop_of(round_number: int) -> str:
    """The shop that a round (from 1) inspects; from the second visit on with its number."""
    visit, position = divmod(round_number - 1, len(SHOPS))
    return SHOPS[position] if visit == 0 else f"{SHOPS[position]} {visit + 1}"
