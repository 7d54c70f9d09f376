"""The state picture and the curve of waits: drawn from the rules, all of them."""

from __future__ import annotations

import re
from itertools import product

import pytest

from apps.jobs.admin.backoff_picture import MAX_RETRIES, backoff_picture
from apps.jobs.admin.state_picture import (
    BOXES,
    CURVES,
    pairs,
    state_picture,
)
from apps.jobs.models import Job
from apps.jobs.rules import transitions as t
from apps.jobs.rules.backoff import Backoff

PLAIN = Backoff(delay=10, multiplier=2, cap=3600, jitter=0.1)


def test_picture_has_a_box_for_every_state_and_an_arrow_for_every_pair_of_the_table() -> None:
    svg = state_picture(t.READY, set())

    assert BOXES.keys() == set(t.STATUSES)
    assert CURVES.keys() == pairs().keys()
    assert svg.count("<rect") == len(t.STATUSES)
    assert svg.count("<path") == len(pairs())
    for (source, target), arrows in pairs().items():
        assert all(t.is_legal(arrow.name, source) and target in arrow.targets for arrow in arrows)
        words = dict(Job.Status.choices)
        assert f"{words[source]} → {words[target]}: " in svg


def test_present_state_is_marked_and_what_leaves_it(subtests: pytest.Subtests) -> None:
    for status in t.STATUSES:
        with subtests.test(status=status):
            svg = state_picture(status, set())
            leaving = [pair for pair in pairs() if pair[0] == status]
            assert svg.count("state-here") == 1
            assert svg.count('class="arrow arrow-open"') == len(leaving)
            assert f"now: {dict(Job.Status.choices)[status]}" in svg


def test_arrows_that_the_job_has_taken_are_marked_and_drawn_last() -> None:
    taken = {(t.READY, t.RUNNING), (t.RUNNING, t.FAILED)}
    svg = state_picture(t.FAILED, taken)

    drawn = re.findall(r'<g class="arrow arrow-(\w+)"', svg)
    assert drawn.count("taken") == 2
    assert drawn[-2:] == ["taken"] * 2
    assert svg.count("state-seen") == 2


# --- the curve of waits -----------------------------------------------------------------------
def test_curve_has_a_point_and_a_line_of_the_table_for_every_retry() -> None:
    svg = backoff_picture(PLAIN, 5)

    assert svg.count("<circle") == 4
    assert "80.0 s" not in svg
    assert re.search(r"<td>4</td><td>1 min 20 s</td><td>1 min 12 s … 1 min 28 s</td>", svg)
    assert "2 min 30 s" in svg


def test_every_policy_that_a_type_may_have_is_drawn(subtests: pytest.Subtests) -> None:
    for policy, attempts in product(
        (
            Backoff(delay=0, multiplier=0, cap=0, jitter=0),
            Backoff(delay=31_622_400, multiplier=1000, cap=31_622_400, jitter=1),
            Backoff(delay=10, multiplier=0, cap=3600, jitter=0.5),
            Backoff(delay=1e-9, multiplier=1.0, cap=3600, jitter=0),
        ),
        (2, 3, 10_000),
    ):
        with subtests.test(policy=policy, attempts=attempts):
            svg = backoff_picture(policy, attempts)

            assert svg.count("<circle") == min(attempts - 1, MAX_RETRIES)
            assert "nan" not in svg
            assert "inf" not in svg
            heights = [float(y) for y in re.findall(r'cy="([^"]*)"', svg)]
            assert all(0 <= y <= 220 for y in heights)
