"""The parts of the demo that need no database: tables, data, final rows and proofs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from apps.common.json_schema import check_params, check_schema
from apps.dispatch.models import Dispatch, Executor, OnceTask
from apps.dispatch.rules.policy import keeps_stock
from taskplatform.demo import proofs
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
from taskplatform.demo.proofs import proofs_of
from taskplatform.demo.terminal import Column, Live, cells_of, fit, percentile, table
from taskplatform.demo.work import COLUMNS, Occurrence, OccurrenceResult

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
        assert list(table(columns, [["王府井店", "7"]])) == [
            "Shop     No",
            "──────  ───",
            "王府…     7",
        ]

    def test_column_without_a_width_is_as_wide_as_its_longest_cell(self) -> None:
        assert list(table([Column("No"), Column("Shop")], [["7", "王府井店"], ["12", ""]])) == [
            "No  Shop",
            "──  ────────",
            "7   王府井店",
            "12",
        ]

    def test_final_table_fits_a_screen_of_100_columns(self) -> None:
        heading, rule = table(COLUMNS, [])
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
) -> OccurrenceResult:
    task = OnceTask(**{"title": "Shelf", "mode": "multi", "dispatch_times": quota, **fields})
    return OccurrenceResult(Occurrence(task, MOMENT), quota, stock, dispatches)


def broken(outcome: OccurrenceResult, *, everybody: bool = True) -> dict[str, list[str]]:
    found = proofs_of([outcome], since=MOMENT, everybody_works=everybody)
    return {proof.promise: list(proof.breaches) for proof in found if proof.breaches}


@pytest.fixture
def no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the proofs that read the tables."""
    monkeypatch.setattr(proofs, "audited", lambda _checks: [])
    monkeypatch.setattr(proofs, "_overlaps", lambda *_: [])


@pytest.mark.usefixtures("no_database")
class TestProofs:
    """S0.12, S0.13, S0.28: what a run must have kept."""

    @pytest.mark.parametrize(
        ("handed", "met", "exceeded"), [(3, True, False), (2, False, False), (4, False, True)]
    )
    def test_quota_is_met_exactly_or_not_exceeded(
        self, handed: int, met: bool, exceeded: bool
    ) -> None:
        result = outcome([], stock=handed)
        off = [f"Shelf: {handed} of 3"]
        assert broken(result) == ({} if met else {"every quota is met exactly": off})
        assert broken(result, everybody=False) == (
            {"no quota is exceeded": off} if exceeded else {}
        )
        assert result.cells[-1] == ("yes" if met else "NO")

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
    def test_second_hand_out_to_the_same_person_depends_on_the_first(
        self, first: str, fields: dict[str, Any], allowed: bool
    ) -> None:
        twice = [dispatch("uid_ann", round_=1), dispatch("uid_ann", first), dispatch("uid_ben")]
        promise = "nobody was handed a task again that was over for them"
        wrong = broken(outcome(twice, **fields))
        assert wrong == ({} if allowed else {promise: ["uid_ann got 'Shelf' again"]})


class TestRow:
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
        cells = outcome([dispatch("uid_ann")], stock=1, dispatch_times=None).cells
        assert (cells[2], cells[-1]) == ("all 3", "NO")


class TestPercentile:
    @pytest.mark.parametrize(
        ("part", "found"), [(0, 1), (1, 1), (50, 50), (50.5, 51), (99, 99), (99.1, 100), (100, 100)]
    )
    def test_percentile_is_of_the_nearest_rank(self, part: float, found: int) -> None:
        values = [*range(100, 0, -1)]
        assert percentile(values, part) == found
        assert values[0] == 100

    @pytest.mark.parametrize(("values", "found"), [([7], 7), ([3, 1], 1), ([9, 1, 5], 5)])
    def test_median_is_one_of_the_values(self, values: list[float], found: float) -> None:
        assert percentile(values, 50) == found


class TestLive:
    def shown(self, *seconds: float, in_place: bool) -> str:
        written: list[str] = []
        live = Live(written.append, in_place=in_place, pause=5.0)
        for at in seconds:
            live.show(at, [f"{at} s", "two"], last=at == seconds[-1])
        return "".join(written)

    def test_terminal_shows_the_lines_in_one_place(self) -> None:
        assert self.shown(0.2, 0.5, in_place=True) == (
            "0.2 s\x1b[K\ntwo\x1b[K\n\x1b[2F0.5 s\x1b[K\ntwo\x1b[K\n"
        )

    def test_file_has_the_lines_of_every_five_seconds_and_the_last(self) -> None:
        lines = self.shown(0.2, 1, 5.3, 5.9, 11, 12, in_place=False).splitlines()
        assert lines[::3] == ["0.2 s", "5.3 s", "11 s", "12 s"]
        assert lines[:5] == ["0.2 s", "two", "", "5.3 s", "two"]
