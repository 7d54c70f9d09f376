"""The demo plans once, says what is left, and proves its promises from the rows of a run."""

from __future__ import annotations

import sys
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core import serializers
from django.core.management import CommandError, call_command

from apps.dispatch.models import (
    Dispatch,
    Executor,
    Membership,
    OnceTask,
    RotateTask,
    Stock,
    Template,
)
from apps.dispatch.services import ending
from apps.journal.models import JournalEntry
from taskplatform.demo.company import ANN
from taskplatform.demo.proofs import proofs_of
from taskplatform.demo.work import work_at_hand
from tests import callback
from tests.frozen import FrozenClock

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_clock")]


def demo(*arguments: str, **options: Any) -> str:
    out = StringIO()
    call_command("demo", *arguments, stdout=out, **options)
    return out.getvalue()


def all_rows() -> str:
    models = (Executor, Membership, Template, OnceTask, RotateTask, Dispatch, Stock, JournalEntry)
    return serializers.serialize(
        "json", [row for model in models for row in model._default_manager.order_by("pk")]
    )


def hand_out(name: str) -> Dispatch:
    taken = callback.take_next(Executor.objects.get(name=name))
    assert isinstance(taken, Dispatch)
    return taken


def pause_all_but_the_entrance_photo() -> None:
    OnceTask.objects.exclude(executor__name=ANN).update(status="paused")
    RotateTask.objects.update(status="paused")


def titles_at_hand(**options: Any) -> list[str]:
    return [occurrence.title for occurrence in work_at_hand(**options)]


def succeed(dispatch: Dispatch, clock: FrozenClock) -> None:
    assert ending.end_alone(dispatch, "succeeded", now=clock.instant)


class TestPlanning:
    def test_first_run_plans_the_company_and_a_round(self, frozen_clock: FrozenClock) -> None:
        """S0.2, S0.5: templates, people in several groups, tasks of every mode."""
        planned = demo().splitlines()
        assert planned[:2] == [
            "Planned a round of 11 tasks for the shop Nanjing Road.",
            "Planned 4 rotations:",
        ]
        assert "    Opening photo for uid_ann: every 2 days at 17:00, Asia/Shanghai" in planned
        assert any(line.startswith("Submitted 110 orders of 3 shops; ") for line in planned)
        assert Executor.objects.users().count() == 20
        assert Executor.objects.groups().count() == 3
        assert Membership.objects.filter(user__name="uid_grace").count() == 2
        assert set(OnceTask.objects.values_list("mode", flat=True)) == {
            *("single", "multi", "blocking")
        }
        assert OnceTask.objects.filter(start_at__gt=frozen_clock.instant).count() == 1
        assert Template.objects.count() == 3

    def test_second_run_changes_no_row(self, frozen_clock: FrozenClock) -> None:
        demo()
        before = all_rows()
        frozen_clock.advance(seconds=60)
        again = demo()
        assert "; 95 hand-outs of 16 due tasks are left." in again and "orders" not in again
        assert all_rows() == before

    def test_fresh_plans_another_shop_and_no_second_task_for_tomorrow(
        self, frozen_clock: FrozenClock
    ) -> None:
        demo()
        again = demo("--fresh")
        assert again.startswith("Planned a round of 10 tasks for the shop Harbour Street.\n")
        assert "Submitted 110 orders of 3 shops; " in again
        frozen_clock.advance(hours=25)
        assert demo("--fresh").startswith("Planned a round of 11 tasks for the shop 王府井店.\n")
        assert RotateTask.objects.count() == 4

    def test_first_task_of_ann_is_the_one_addressed_to_her(self) -> None:
        """S0.21: the greeting of `make run` pulls as her and must find work."""
        demo()
        assert hand_out(ANN).title == "Entrance photo, Nanjing Road"


@pytest.mark.both
class TestWorkAtHand:
    def test_task_given_back_is_left_out_while_somebody_may_not_have_it(
        self, frozen_clock: FrozenClock
    ) -> None:
        """S0.28: its quota could need the one who is cooling down."""
        demo()
        RotateTask.objects.update(status="paused")
        given_back = hand_out("uid_ben")
        ending.release(dispatch=given_back, actor="uid_ben")
        assert given_back.title not in titles_at_hand()
        frozen_clock.advance(seconds=3600)
        assert given_back.title in titles_at_hand()

    def test_task_still_open_is_at_hand(self, frozen_clock: FrozenClock) -> None:
        demo()
        held = hand_out(ANN)
        assert held.title in titles_at_hand()
        succeed(held, frozen_clock)
        assert held.title not in titles_at_hand()

    def test_rotations_add_the_occurrences_that_their_misfire_rules_let_through(self) -> None:
        """S0.9, S0.22: each with a stock of its own; of the paused one nothing."""
        demo()
        rotating = [title for title in titles_at_hand() if " at " in title]
        assert rotating == [
            *(f"Till check at {time}" for time in ("07:00", "08:00", "09:00")),
            *(f"Fridge temperature at {time}" for time in ("06:00", "08:00")),
            "Opening photo at 09:00",
        ]


@pytest.mark.both
class TestProofs:
    """I1, I5: the proofs after a run find what they are there for."""

    def breaches(self, clock: FrozenClock, *, everybody: bool = True) -> list[str]:
        since = clock.instant - timedelta(hours=1)
        proofs = proofs_of(work_at_hand(), since=since, everybody_works=everybody)
        return [breach for proof in proofs for breach in proof.breaches]

    @pytest.fixture
    def held(self, frozen_clock: FrozenClock) -> Dispatch:
        """The only task that is left, open, and its stock taken."""
        demo()
        pause_all_but_the_entrance_photo()
        return hand_out(ANN)

    def test_open_dispatch_is_a_breach(self, held: Dispatch, frozen_clock: FrozenClock) -> None:
        assert self.breaches(frozen_clock) == ["uid_ann still has Entrance photo, Nanjing Road"]

    def test_stock_that_counts_no_dispatch_is_a_breach_of_the_audit(
        self, held: Dispatch, frozen_clock: FrozenClock
    ) -> None:
        succeed(held, frozen_clock)
        Stock.objects.update(handed=2)
        assert self.breaches(frozen_clock) == [
            f"I1 quota once:{held.task}/0: handed 2, but 1 dispatches count to it",
            f"I1 quota once:{held.task}/0: handed 2 of 1 dispatch times",
        ]

    def test_two_open_at_once_are_a_breach(self, held: Dispatch, frozen_clock: FrozenClock) -> None:
        other = OnceTask.objects.get(title="Freezer count, Nanjing Road")
        frozen_clock.advance(seconds=1)
        Dispatch.objects.create(
            **{
                **{f.attname: getattr(held, f.attname) for f in Dispatch._meta.concrete_fields},
                "id": held.pk + 1,
                "open_for": None,
                "task": other.pk,
                "title": other.title,
                "dispatched_at": frozen_clock.instant,
            }
        )
        assert (
            "uid_ann was handed Freezer count, Nanjing Road while Entrance photo, Nanjing Road "
            "was open" in self.breaches(frozen_clock)
        )


class TestRefusals:
    @pytest.fixture(autouse=True)
    def var_dir(self, tmp_path: Path, settings: Any) -> Path:
        settings.VAR_DIR = tmp_path
        return tmp_path

    def test_wrong_option_is_one_clear_line(self, subtests: pytest.Subtests) -> None:
        for arguments, words in [
            (["--clients", "0"], "--clients: '0' is not a whole number from 1 to 20"),
            (["--clients", "21"], "--clients: '21' is not a whole number"),
            (["--clients", "1", "--seconds", "0"], "--seconds: '0' is not"),
            (["--clients", "1", "--seconds", "3601"], "from 1 to 3600"),
            (["--clients", "1"], "There is no demo key in .*make run"),
            (["--clients", "1", "--key", "oh"], "key is not of the form"),
            (["--clients", "1", "--key", "a.b", "--url", "oh"], "'oh' is not an address"),
        ]:
            with subtests.test(arguments=arguments, words=words):
                with pytest.raises(CommandError, match=words):
                    demo(*arguments)
                assert not OnceTask.objects.exists()

    def test_no_server_says_how_to_start_one(self, var_dir: Path, settings: Any) -> None:
        (var_dir / "demo_key").write_text("a.b\n")
        settings.PORT = 1
        with pytest.raises(CommandError, match=r"answers at http://127\.0\.0\.1:1\. .*same PORT"):
            demo("--clients", "20")
        assert not OnceTask.objects.exists()

    def test_command_whose_code_lives_with_the_tests_says_so_without_them(
        self, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
    ) -> None:
        for module, command in (
            ("tests.years", ["demo", "--years", "1"]),
            ("tests.benchmark.run", ["benchmark", "jobs"]),
        ):
            monkeypatch.setitem(sys.modules, module, None)
            with subtests.test(command=command), pytest.raises(CommandError, match="a checkout"):
                call_command(*command)
