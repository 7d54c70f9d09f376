"""S1.12, I26: the table of arrows, checked as a table."""

from __future__ import annotations

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
