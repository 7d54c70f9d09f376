"""S1.12, I26: the table of arrows, checked as a table, and the picture that is drawn from it."""

from __future__ import annotations

import re

import pytest

from apps.jobs.admin.state_picture import BOXES, CURVES, pairs, state_picture
from apps.jobs.models import Job
from apps.jobs.rules import transitions as t


def test_only_an_operator_takes_a_job_out_of_a_final_state() -> None:
    out_of_final = [a for a in t.ARROWS.values() if set(a.sources) & set(t.FINAL)]

    assert {(a.name, a.by) for a in out_of_final} == {
        ("retry", t.OPERATOR),
        ("take_back", t.OPERATOR),
        ("mark_done", t.OPERATOR),
        ("undo", t.OPERATOR),
    }


def test_every_state_is_reached_and_every_open_one_left() -> None:
    reached = {status for arrow in t.ARROWS.values() for status in arrow.targets}
    left = {status for arrow in t.ARROWS.values() for status in arrow.sources}

    assert reached == set(t.STATUSES)
    assert set(t.OPEN) <= left


def test_running_is_entered_by_a_hold_alone() -> None:
    into = [a.name for a in t.ARROWS.values() if t.RUNNING in a.targets]

    assert into == ["hold", "request_cancel"]


# --- the picture ----------------------------------------------------------------------------------
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
