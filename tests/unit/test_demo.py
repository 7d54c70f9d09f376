"""The demo's parts that need no database: its table, its mishaps, its own checks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from apps.common.json_schema import check_params, check_schema
from apps.dispatch.models import Dispatch, Executor, OnceTask
from apps.dispatch.rules.policy import keeps_stock
from taskplatform.demo.company import (
    PEOPLE,
    ROTATIONS,
    ROUND,
    SHOPS,
    TEAMS,
    TEMPLATES,
    TOMORROW,
    shop_of,
)
from taskplatform.demo.crew import Mishaps, Tally
from taskplatform.demo.occurrence import Occurrence
from taskplatform.demo.outcome import COLUMNS, Outcome, Progress
from taskplatform.demo.progress import LINE_CELLS, ProgressLine
from taskplatform.demo.table import Column, cells_of, fit, lines_of

GROUPS = {team.name: team for team in TEAMS}
MOMENT = datetime(2026, 3, 2, 9, tzinfo=UTC)


class TestTable:
    @pytest.mark.parametrize(
        ("text", "cells"),
        [
            ("shop", 4),
            ("王府井店", 8),
            ("Gran Vía", 8),
            ("Gran Vi\u0301a", 8),
            ("ｆｕｌｌ", 8),
            ("", 0),
        ],
    )
    def test_width_is_that_of_the_terminal(self, text: str, cells: int) -> None:
        assert cells_of(text) == cells

    @pytest.mark.parametrize(
        ("text", "fitted"),
        [
            ("shop", "shop  "),
            ("market", "market"),
            ("markets", "marke…"),
            ("王府井店", "王府… "),
            ("王府井", "王府井"),
            ("a\x1b[2J", "a?[2J "),
            ("a\u202eb", "a?b   "),
        ],
    )
    def test_text_fills_exactly_its_cells(self, text: str, fitted: str) -> None:
        assert fit(text, 6) == fitted
        assert cells_of(fitted) == 6

    def test_numbers_stand_right(self) -> None:
        assert fit("42", 5, "right") == "   42"

    def test_lines_are_as_wide_as_the_columns_and_the_gaps(self) -> None:
        columns = [Column("Shop", 6), Column("No", 3, "right")]
        assert list(lines_of(columns, [["王府井店", "7"]])) == [
            "Shop     No",
            "──────  ───",
            "王府…     7",
        ]

    def test_final_table_fits_a_screen_of_100_columns(self) -> None:
        heading, rule = lines_of(COLUMNS, [])
        assert cells_of(heading) <= cells_of(rule) == 100


class TestRound:
    @pytest.mark.parametrize("name", TEMPLATES)
    def test_schemas_are_schemas(self, name: str) -> None:
        check_schema(TEMPLATES[name])

    @pytest.mark.parametrize(
        "inspection", [*ROUND, TOMORROW, *ROTATIONS], ids=lambda part: part.title
    )
    def test_params_fit_their_template(self, inspection: Any) -> None:
        check_params(TEMPLATES[inspection.template], {"shop": "x", **inspection.params})

    def test_twenty_people_work_in_three_groups_and_some_in_two(self) -> None:
        members = [name for team in TEAMS for name in team.members]
        assert len(PEOPLE) == 20
        assert set(members) == set(PEOPLE)
        assert len(TEAMS) == 3
        assert 0 < len(members) - len(PEOPLE) < 5

    @pytest.mark.parametrize("inspection", [*ROUND, *ROTATIONS], ids=lambda part: part.title)
    def test_mishaps_leave_enough_people_for_the_quota(self, inspection: Any) -> None:
        policy = OnceTask(on_failure=inspection.on_failure).policy
        lost = [end for end in inspection.mishaps if not keeps_stock(policy, end)]
        if inspection.mode == "multi" and inspection.executor in GROUPS:
            members = len(GROUPS[inspection.executor].members)
            assert (inspection.quota or members) + len(lost) <= members

    def test_rotations_are_of_every_kind_and_misfire(self) -> None:
        """S0.4, S0.11: what the demo shows of rotations."""
        kinds = {kind for rotation in ROTATIONS for kind in rotation.rule}
        assert kinds == {"every_minutes", "every_days", "at", "cron"}
        assert {rotation.misfire for rotation in ROTATIONS} == {"skip", "once", "all"}
        assert [rotation.status for rotation in ROTATIONS].count("paused") == 1
        assert {rotation.executor[:4] for rotation in ROTATIONS} == {"gid_", "uid_"}

    def test_every_round_inspects_a_shop_of_its_own(self) -> None:
        shops = [shop_of(number) for number in range(1, 3 * len(SHOPS) + 1)]
        assert shops[0] == "Nanjing Road"
        assert shops[len(SHOPS)] == "Nanjing Road 2"
        assert len(set(shops)) == len(shops)


def dispatch(
    name: str, state: str = "succeeded", *, round_: int = 0, holds: bool = True
) -> Dispatch:
    return Dispatch(
        executor=Executor(name=name),
        state=state,
        round=round_,
        holds_stock=holds,
        dispatched_at=MOMENT,
        finished_at=MOMENT,
    )


def outcome(
    dispatches: Sequence[Dispatch], *, quota: int = 3, stock: int = 3, **fields: Any
) -> Outcome:
    task = OnceTask(**{"title": "Shelf", "mode": "multi", "dispatch_times": quota, **fields})
    return Outcome(Occurrence(task, MOMENT), quota, stock, dispatches)


class TestOutcome:
    """S0.12, S0.13, S0.28: what the demo holds its own final table against."""

    @pytest.mark.parametrize(
        ("holding", "stock", "met", "kept"),
        [
            *((3, 3, True, True), (2, 2, False, True), (0, 0, False, True)),
            *((4, 4, False, False), (3, 2, False, False), (2, 3, False, False)),
        ],
    )
    def test_quota_is_met_when_stock_and_dispatches_both_say_so(
        self, holding: int, stock: int, met: bool, kept: bool
    ) -> None:
        people = [dispatch(f"uid_{n}") for n in range(holding)]
        given_back = [dispatch("uid_x", "released", holds=False)]
        judged = outcome(people + given_back, stock=stock)
        assert (judged.is_met, judged.is_kept) == (met, kept)

    @pytest.mark.parametrize(
        ("first", "fields", "allowed"),
        [
            ("succeeded", {}, False),
            ("failed", {}, False),
            ("cancelled", {}, False),
            ("cancelled", {"mode": "blocking"}, False),
            ("released", {}, True),
            ("expired", {}, True),
            ("expired", {"on_expiry": "keep"}, False),
            ("failed", {"on_failure": "give_back"}, True),
            ("failed", {"on_failure": "retry_same"}, True),
            ("succeeded", {"mode": "blocking"}, True),
            ("failed", {"mode": "blocking"}, True),
        ],
    )
    def test_second_hand_out_to_the_same_person_is_judged_by_the_first(
        self, first: str, fields: dict[str, Any], allowed: bool
    ) -> None:
        twice = [dispatch("uid_ann", round_=1), dispatch("uid_ann", first), dispatch("uid_ben")]
        wrong = outcome(twice, **fields).wrong_repeats
        assert wrong == ([] if allowed else ["uid_ann got 'Shelf' again"])

    def test_row_counts_every_end_and_names_who_got_it(self) -> None:
        rows = [
            *[dispatch("uid_ann", round_=n) for n in range(2)],
            dispatch("uid_ben"),
            dispatch("uid_chloe", "failed", holds=False),
            dispatch("uid_diego", "released", holds=False),
            dispatch("uid_emma", "expired", holds=False),
        ]
        cells = outcome(rows, mode="blocking").cells
        assert cells == ["Shelf", "blocking", "3", "6", "3", "1", "2", "ann×2 ben", "yes"]

    def test_row_of_every_member_once_says_all(self) -> None:
        cells = outcome([dispatch("uid_ann")], dispatch_times=None).cells
        assert (cells[2], cells[-1]) == ("all 3", "NO")

    def test_names_that_do_not_fit_are_counted(self) -> None:
        people = ["uid_christopher", "uid_ann", "uid_alexandria", "uid_ben"]
        assert outcome([dispatch(name) for name in people]).cells[-2] == "christopher ann +2"
        assert outcome([dispatch("uid_" + "x" * 40)]).cells[-2] == "x" * 40
        assert outcome([]).cells[-2] == "nobody"


class TestMishaps:
    def test_each_befalls_one_hand_out_of_its_task(self) -> None:
        mishaps = Mishaps({("once", 7): ("failed", "released"), ("once", 8): ()})
        assert [mishaps.take("once", task) for task in (7, 8, 7, 7, 9)] == [
            *("failed", "", "released", "", ""),
        ]

    def test_once_task_and_rotation_of_one_number_have_their_own(self) -> None:
        """S0.10: equal ids of two kinds are never taken for one another."""
        mishaps = Mishaps({("once", 7): ("failed",), ("rotate", 7): ("released",)})
        assert [mishaps.take("rotate", 7), mishaps.take("rotate", 7)] == ["released", ""]
        assert mishaps.take("once", 7) == "failed"


class TestProgressLine:
    HALF = Progress(counted=4, quota=8, open=2)

    def shown(self, *seconds: float, in_place: bool) -> str:
        written: list[str] = []
        line = ProgressLine(written.append, in_place=in_place)
        for moment in seconds:
            line.show(moment, self.HALF, Tally())
        line.close()
        return "".join(written)

    def test_terminal_sees_one_line_that_overwrites_itself(self) -> None:
        first, *others = self.shown(0.2, 0.5, 0.7, in_place=True).removesuffix("\n").split("\r")
        assert first == ""
        assert [cells_of(line) for line in others] == [LINE_CELLS] * 3
        assert "██████████░░░░░░░░░░ 4 of 8 · 2 open" in others[-1]

    def test_file_sees_a_line_every_five_seconds_and_the_last(self) -> None:
        lines = self.shown(0.2, 1, 5.1, 5.3, 5.9, 11, 12, in_place=False).splitlines()
        assert [line.split(" s ")[0].strip() for line in lines] == ["0", "5", "11", "12"]
