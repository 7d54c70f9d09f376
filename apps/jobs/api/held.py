"""The JSON of held jobs, written without a serializer: a hold has a hundred of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rest_framework import serializers

from apps.common.api.serializer_fields import Instant, StoredObject
from apps.common.messages import wire_text
from apps.jobs.api.shapes import JobOut
from apps.jobs.services.outside import HELD, HELD_TIMES

_AT = {name: position for position, name in enumerate(HELD)}
_TIMES = [_AT[name] for name in HELD_TIMES]
_JSON = [_AT[name] for name in ("context", "checkpoint", "result")]


class HeldOut(JobOut):
    attempt = serializers.IntegerField(source="attempts")
    lease_token = serializers.CharField(help_text="The right to report about this attempt.")
    context = StoredObject()  # type: ignore[assignment]
    checkpoint = serializers.JSONField(allow_null=True)
    sequence = serializers.IntegerField(help_text="Of the checkpoint; the next one is higher.")
    hard_end_at = Instant(help_text="When the attempt ends, unless a checkpoint or progress comes.")
    alone = serializers.BooleanField(help_text="Always false; for workers that ask for it.")


def held_json(rows: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """The rows of HELD as HeldOut describes them."""
    answer = []
    for row in rows:
        values = list(row)
        for position in _TIMES:
            text = values[position]
            values[position] = None if text is None else wire_text(text)
        for position in _JSON:
            text = values[position]
            values[position] = None if text is None else json.loads(text)
        job = dict(zip(HELD, values, strict=True))
        job["id"] = str(row[0])
        job["attempt"] = job["attempts"]
        job["cancel_requested"] = bool(job["cancel_requested"])
        job["alone"] = False
        answer.append(job)
    return answer
