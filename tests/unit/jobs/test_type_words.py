"""Presets of job types, and what is said of settings."""

from __future__ import annotations

import math
from itertools import product

import pytest

from apps.jobs.admin.type_words import MAX_TRIES, cards, sentence, tries, waits_in_all
from apps.jobs.models import JobType
from apps.jobs.rules.type_presets import NIGHT, PRESETS, preset_of
from apps.jobs.rules.type_snapshot import RANGES


def test_presets_are_in_the_ranges_and_name_the_same_settings() -> None:
    assert len({frozenset(preset) for preset in PRESETS.values()}) == 1
    for name, preset in PRESETS.items():
        assert all(
            RANGES[field][0] <= value <= RANGES[field][1]
            for field, value in preset.items()
            if field in RANGES
        ), name
        assert preset_of(JobType(**preset)) == name
        assert preset_of(JobType(**preset | {"max_attempts": 99})) == ""
    assert [card.is_chosen for card in cards(JobType(**PRESETS[NIGHT]))] == [
        *[False] * 3,
        *[True, False],
    ]
    assert cards(JobType())[-1].is_chosen


def test_every_policy_that_a_type_may_have_is_drawn_and_said(subtests: pytest.Subtests) -> None:
    for (delay, multiplier, cap, jitter), attempts in product(
        (
            (0, 0, 0, 0),
            (31_622_400, 1000, 31_622_400, 1),
            (10, 0, 3600, 0.5),
            (1e-9, 1.0, 3600, 0),
            (10, 2, 3600, 0.1),
        ),
        (1, 2, 3, 10_000),
    ):
        made = JobType(
            retry_delay_seconds=delay,
            retry_multiplier=multiplier,
            retry_max_seconds=cap,
            retry_jitter=jitter,
            max_attempts=attempts,
        )
        with subtests.test(delay=delay, attempts=attempts):
            assert len(tries(made)) == min(attempts, MAX_TRIES) - 1
            assert math.isfinite(waits_in_all(made))
            assert sentence(made).startswith("A job has ")
    second, third, *_rest, last = tries(made)
    assert (second.number, second.wait, second.between) == (2, "10 s", "9 s … 11 s")
    assert (third.wait, last.wait) == ("20 s", "2 min 40 s")


def test_sentence_names_each_limit_and_nothing_that_is_none() -> None:
    plain = JobType(handler="echo", max_attempts=1)
    assert sentence(plain) == "A job has one try of 15 min."
    full = JobType(
        max_attempts=3,
        max_processing_seconds=30,
        retry_delay_seconds=30,
        retry_jitter=0.0,
        max_running=8,
        rate_per_minute=600,
        breaker_enabled=True,
        expires_after_seconds=90,
        unique="always",
        allowed_hosts=["shop-1", "shop-2"],
    )
    assert sentence(full) == (
        "A job has 3 tries of 30 s each, and 1 min 30 s of waits between them. At most 8 run at "
        "once. At most 600 start each minute. When 50 % of at least 20 tries within 1 min fail, "
        "none starts for 30 s; then one job tests the cause. After 1 min 30 s a job expires. One "
        "job per key is open at a time. Only workers on shop-1, shop-2 run them. Only workers over "
        "HTTP run them."
    )
    for count, hosts in ((5, "h0, h1, h2, h3, h4"), (6, "h0, h1, h2, h3, h4, …")):
        many = JobType(handler="echo", allowed_hosts=[f"h{n}" for n in range(count)])
        assert sentence(many).endswith(f"Only workers on {hosts} run them.")
