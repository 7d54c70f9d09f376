"""The parts of the demo that need no database: tables, data, final rows and proofs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from apps.dispatch.models import Dispatch, Executor, OnceTask
from taskplatform.demo import proofs
from taskplatform.demo.proofs import proofs_of
from taskplatform.demo.terminal import percentile
from taskplatform.demo.work import Occurrence

MOMENT = datetime(2026, 3, 2, 9, tzinfo=UTC)


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


def test_percentile_is_of_the_nearest_rank(subtests: pytest.Subtests) -> None:
    cases = {0: 1, 1: 1, 50: 50, 50.5: 51, 99: 99, 99.1: 100, 100: 100}
    for part, found in cases.items():
        with subtests.test(part=part):
            values = [*range(100, 0, -1)]
            assert percentile(values, part) == found
            assert values[0] == 100
