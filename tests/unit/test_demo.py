"""The parts of the demo that need no database: tables, data, final rows and proofs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from django.core.management.base import OutputWrapper

from apps.common.json_schema import check_params, check_schema
from apps.dispatch.models import Dispatch, Executor, OnceTask
from apps.dispatch.rules.policy import keeps_stock
from taskplatform.demo import proofs, terminal
from taskplatform.demo.company import (
    GROUPS,
    PEOPLE,
    ROTATIONS,
    ROUND,
    SHOPS,
    TEMPLATES,
    TOMORROW,
    shop_of,
)
from taskplatform.demo.proofs import proofs_of
from taskplatform.demo.terminal import cells_of, fit, percentile, table, watch
from taskplatform.demo.work import Occurrence

MOMENT = datetime(2026, 3, 2, 9, tzinfo=UTC)


class TestTable:
    def test_width_is_that_of_the_terminal(self, subtests: pytest.Subtests) -> None:
        cases = {"shop": 4, "王府井店": 8, "Gran Vía": 8, "Gran Vi\u0301a": 8, "ｆｕｌｌ": 8, "": 0}
        for text, cells in cases.items():
            with subtests.test(text=text):
                assert cells_of(text) == cells

    def test_long_text_is_cut_to_30_cells_of_what_can_be_printed(
        self, subtests: pytest.Subtests
    ) -> None:
        for text, fitted in (
            ("shop", "shop"),
            ("market" * 5, "market" * 5),
            ("market" * 6, "market" * 4 + "marke…"),
            ("店" * 16, "店" * 14 + "…"),
            ("店" * 15, "店" * 15),
            ("a\x1b[2J", "a?[2J"),
            ("a\u202eb", "a?b"),
        ):
            with subtests.test(text=text):
                assert fit(text) == fitted
                assert cells_of(fitted) <= 30

    def test_column_is_as_wide_as_its_longest_cell_and_numbers_stand_right(self) -> None:
        rows = [["7", "王府井店", "1,000"], ["12", "", "7"]]
        assert list(table(["No", "Shop", ">Jobs"], rows)) == [
            "No  Shop       Jobs",
            "──  ────────  ─────",
            "7   王府井店  1,000",
            "12                7",
        ]


class TestRound:
    @pytest.mark.parametrize("name", TEMPLATES)
    def test_schemas_are_schemas(self, name: str) -> None:
        check_schema(TEMPLATES[name])

    def test_params_fit_their_template(self, subtests: pytest.Subtests) -> None:
        for part in (*ROUND, TOMORROW, *ROTATIONS):
            with subtests.test(part["title"]):
                check_params(TEMPLATES[part["template"]], {"shop": "x", **part["params"]})

    def test_twenty_people_work_in_three_groups_and_some_in_two(self) -> None:
        members = [name for group in GROUPS.values() for name in group["members"]]
        assert len(PEOPLE) == 20
        assert set(members) == set(PEOPLE)
        assert len(GROUPS) == 3
        assert 0 < len(members) - len(PEOPLE) < 5

    def test_mishaps_leave_enough_people_for_the_quota(self, subtests: pytest.Subtests) -> None:
        for part in (*ROUND, *ROTATIONS):
            with subtests.test(part["title"]):
                policy = OnceTask(on_failure=part.get("on_failure", "finish")).policy
                lost = [end for end in part.get("mishaps", ()) if not keeps_stock(policy, end)]
                if part["mode"] == "multi" and part["executor"] in GROUPS:
                    members = len(GROUPS[part["executor"]]["members"])
                    assert (part["dispatch_times"] or members) + len(lost) <= members

    def test_rotations_are_of_every_kind_and_misfire(self) -> None:
        """S0.4, S0.11: what the demo shows of rotations."""
        kinds = {kind for rotation in ROTATIONS for kind in rotation["rule"]}
        assert kinds == {"every_minutes", "every_days", "at", "cron"}
        assert {rotation["misfire"] for rotation in ROTATIONS} == {"skip", "once", "all"}
        assert [rotation.get("status") for rotation in ROTATIONS].count("paused") == 1
        assert {rotation["executor"][:4] for rotation in ROTATIONS} == {"gid_", "uid_"}

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
) -> Occurrence:
    task = OnceTask(**{"title": "Shelf", "mode": "multi", "dispatch_times": quota, **fields})
    return Occurrence(task, MOMENT, quota, stock, dispatches)


def broken(outcome: Occurrence, *, everybody: bool = True) -> dict[str, list[str]]:
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

    def test_quota_is_met_exactly_or_not_exceeded(self, subtests: pytest.Subtests) -> None:
        for handed, met, exceeded in ((3, True, False), (2, False, False), (4, False, True)):
            with subtests.test(handed=handed):
                result = outcome([], stock=handed)
                off = [f"Shelf: {handed} of 3"]
                assert broken(result) == ({} if met else {"every quota is met exactly": off})
                assert broken(result, everybody=False) == (
                    {"no quota is exceeded": off} if exceeded else {}
                )
                assert result.cells[-1] == ("yes" if met else "NO")

    def test_second_hand_out_to_the_same_person_depends_on_the_first(
        self, subtests: pytest.Subtests
    ) -> None:
        for first, fields, allowed in (
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
        ):
            with subtests.test(first=first, fields=fields):
                twice = [
                    dispatch("uid_ann", round_=1),
                    dispatch("uid_ann", first),
                    dispatch("uid_ben"),
                ]
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
    def test_percentile_is_of_the_nearest_rank(self, subtests: pytest.Subtests) -> None:
        cases = {0: 1, 1: 1, 50: 50, 50.5: 51, 99: 99, 99.1: 100, 100: 100}
        for part, found in cases.items():
            with subtests.test(part=part):
                values = [*range(100, 0, -1)]
                assert percentile(values, part) == found
                assert values[0] == 100

    @pytest.mark.parametrize(("values", "found"), [([7], 7), ([3, 1], 1), ([9, 1, 5], 5)])
    def test_median_is_one_of_the_values(self, values: list[float], found: float) -> None:
        assert percentile(values, 50) == found


class TestWatch:
    def shown(self, monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> str:
        """What a run of 12 seconds, looked at once a second, has printed."""
        out = StringIO()
        out.isatty = lambda: is_terminal  # type: ignore[method-assign]
        now = [100.0]
        monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
        monkeypatch.setattr(terminal.time, "sleep", lambda _: now.__setitem__(0, now[0] + 1))
        took = watch(lambda: (f"at {now[0]:.0f}", now[0] == 112), 60, OutputWrapper(out))
        assert took == 12
        return out.getvalue()

    def test_terminal_shows_one_line_in_one_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        shown = self.shown(monkeypatch, is_terminal=True)
        assert shown.startswith("\r   0 s at 100\x1b[K\r   1 s at 101\x1b[K")
        assert shown.endswith("\r  12 s at 112\x1b[K\n")

    def test_file_has_a_line_every_five_seconds_and_the_last(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = self.shown(monkeypatch, is_terminal=False).splitlines()
        assert lines == ["   0 s at 100", "   5 s at 105", "  10 s at 110", "  12 s at 112"]

    def test_time_that_is_up_ends_it(self) -> None:
        assert watch(lambda: ("", False), 0, OutputWrapper(StringIO())) >= 0
