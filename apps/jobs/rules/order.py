"""The order of jobs: one ascending number per job, written when it becomes due or is edited.

    order_key = base_ms - priority × weight_ms + demotion_ms(attempts)

`base` is the instant since which the job may run, so lateness ages upward by itself: a job of
priority 0 that waits `weight_ms` longer overtakes one of priority 1. With weight 0 only age counts;
with STRICT every priority goes before all lower ones, and nothing ages.

In a pool the number is the score × 1,000 of the job, and nothing but a rebuild changes it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

WEIGHT_MS = 60_000
STRICT_MS = 10**12
LOWEST_PRIORITY, HIGHEST_PRIORITY = -100, 100

# (attempts from, head start lost): a job that keeps failing lets fresh ones pass.
DEMOTIONS = ((16, 300_000), (5, 60_000), (1, 30_000))

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_MS = timedelta(milliseconds=1)
_LIMIT = 2**63 - 1

# Scores are smaller than this, so that a double has room for their three decimals.
MAX_SCORE = 9 * 10**12
_SCALE = 1000
Score = int | float


def demotion_ms(attempts: int) -> int:
    """How much later a job counts after these attempts: 0; 30 s from 1, 60 s from 5, 300 s
    from 16."""
    for threshold, lost in DEMOTIONS:
        if attempts >= threshold:
            return lost
    return 0


def order_key(base: datetime, *, priority: int, attempts: int, weight_ms: int) -> int:
    """The place of a job among those of its type: the lowest is held first; fits 64 bits."""
    key = (base - _EPOCH) // _ONE_MS - priority * weight_ms + demotion_ms(attempts)
    return max(-_LIMIT, min(_LIMIT, key))


def order_key_sql(base: datetime, *, weight_ms: int) -> tuple[str, list[int]]:
    """`order_key` of each row as SQL over its priority and attempts, with the parameters."""
    demotions = " ".join(f"WHEN attempts >= {least} THEN {lost}" for least, lost in DEMOTIONS)
    sql = f"%s - priority * %s + CASE {demotions} ELSE 0 END"
    return sql, [(base - _EPOCH) // _ONE_MS, weight_ms]


def score_key(score: Score) -> int:
    """The place of a job with this score in its pool: the lowest is assigned first.

    ValueError unless it is within MAX_SCORE and has at most three decimals.
    """
    # A larger one may be infinite, or none at all.
    if not abs(score) < MAX_SCORE:
        raise ValueError(f"{score} is beyond {MAX_SCORE}")
    # The decimals as they were written, not those of the double.
    scaled = Decimal(repr(score)) * _SCALE
    if scaled != int(scaled):
        raise ValueError(f"{score} has more than three decimals")
    return int(scaled)


def score_of(order_key: int) -> Score:
    """The score of a job of a pool, exactly as it was given."""
    whole, rest = divmod(order_key, _SCALE)
    return order_key / _SCALE if rest else whole
