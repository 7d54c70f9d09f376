"""What a benchmark prints: values beside their baselines, and whether the goal is met."""

from __future__ import annotations

import sys

import pytest
from django.core.management import CommandError, call_command

from tests.benchmark.figures import figure, lines


class TestFigure:
    def test_ratio_is_checked_on_both_sides_of_the_goal(self, subtests: pytest.Subtests) -> None:
        least, most = {"at_least": 0.85}, {"at_most": 1.2}
        for value, baseline, limit, goal, met in (
            (85, 100, least, ">= 0.85", True),
            (84.9, 100, least, ">= 0.85", False),
            (0.85, 1, least, ">= 0.85", True),
            (12, 10, most, "<= 1.2", True),
            (12.1, 10, most, "<= 1.2", False),
        ):
            with subtests.test(value=value):
                measured = figure("pull", value, "/s", baseline=baseline, **limit)
                assert measured.ratio == value / baseline
                assert (measured.goal, measured.met) == (goal, met)

    def test_json_has_the_seven_words_of_the_format(self) -> None:
        assert figure("pull", 90.0, "/s", baseline=100.0, at_least=0.85).as_json() == {
            "figure": "pull",
            "value": 90.0,
            "unit": "/s",
            "baseline": 100.0,
            "ratio": 0.9,
            "goal": ">= 0.85",
            "met": True,
        }


def test_each_figure_is_a_line_in_columns_under_their_names() -> None:
    measured = [
        figure("pull over HTTP", 1234.5, "/s", baseline=1300, at_least=0.85),
        figure("queue rebuild", 31, "ms", at_most=30),
    ]
    assert list(lines(measured)) == [
        "figure          value     baseline  ratio  goal",
        "──────────────  ────────  ────────  ─────  ───────  ─────",
        "pull over HTTP  1,234 /s  1,300     0.95   >= 0.85  met",
        "queue rebuild   31 ms     -         -      <= 30    short",
    ]


def test_benchmark_without_the_tests_says_where_to_run_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tests.benchmark.run", None)
    with pytest.raises(CommandError, match=r"needs tests\.benchmark\.run.*checkout") as refused:
        call_command("benchmark", "dispatch")
    assert refused.value.returncode == 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            ["jsbo"],
            "invalid choice: 'jsbo' "
            "(choose from 'dispatch', 'jobs', 'flows', 'workers', 'api', 'reports', 'history')",
        ),
        (
            ["jobs", "drian"],
            "jobs has no part drian; its parts: runner, settings, contract, request-id, submit, "
            "bulk, inbox, inbox-pick-up, settle, limits, flatness, crowd, schedules, bulk-run, "
            "drain, pick-up.",
        ),
        (
            ["history"],
            "Of history these parts need MariaDB and Redis. Set DATABASE_URL and REDIS_URL; "
            "both must be of test machines.",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused_with_what_can(words: list[str], reason: str) -> None:
    with pytest.raises(CommandError) as refused:
        call_command("benchmark", *words, "--quick")
    assert str(refused.value).endswith(reason)
