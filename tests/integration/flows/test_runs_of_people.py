"""Steps of people: who gets their tasks, and what a run waits for."""

from __future__ import annotations

import pytest

from apps.common import clock
from apps.dispatch.models import OnceTask
from apps.dispatch.services import executors, tasks
from apps.flows.services import control, ends
from apps.flows.services.advance import advance
from tests import factories
from tests.flows import (
    OLGA,
    called_back,
    contexts,
    job,
    looks,
    ref,
    run_of,
    started,
    states,
    step_of,
    task,
)
from tests.frozen import FrozenClock
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.usefixtures("mail")]


def test_people_of_a_step(mail: FrozenClock) -> None:
    factories.template()
    factories.group(members=["uid_ann", "uid_ben", "uid_cid", "uid_dan"])
    said = {"quota": 3, "template": "photo-check", "params": {"shop": ref("params", "shop")}}
    run = started(
        task("check", **said, at_least=2),
        job("z", context={"votes": ref("check")}),
        params={"shop": "Bern"},
    )
    called_back("uid_ann", result={"ok": True})
    called_back("uid_ben", "failed")
    advance(run)
    assert states(run)["check"] == "active"
    number = called_back("uid_cid", result={"ok": False})
    assert ends.concerned([step_of(run, "check").pk]) == [run]
    advance(run)
    assert states(run) == {"check": "succeeded", "z": "active"}
    assert contexts(run, "z") == [{"votes": [{"ok": True}, {"ok": False}]}]
    made = OnceTask.objects.get(pk=step_of(run, "check").task)
    assert (made.title, made.mode, made.params) == ("check", "multi", {"shop": "Bern"}) and number


def test_people_who_try_again_hold_their_place(mail: FrozenClock) -> None:
    factories.group(members=["uid_ann"])
    run = started(task("check", on_failure="retry_same", max_rounds=2))
    called_back("uid_ann", "failed")
    advance(run)
    assert states(run) == {"check": "active"}
    called_back("uid_ann", "failed")
    advance(run)
    assert states(run) == {"check": "failed"}
    assert step_of(run, "check").memo == "0 of 1 people succeeded; it needs 1."
    first = step_of(run, "check").task
    control.retry(run=run_of(run), **OLGA)
    assert step_of(run, "check").task != first
    called_back("uid_ann")
    advance(run)
    assert run_of(run).status == "succeeded"


def test_task_that_nobody_can_have(mail: FrozenClock) -> None:
    """Members come and go, and operators pause and delete: the clock sees it."""
    group = factories.group(members=["uid_ann", "uid_ben"])
    run = started(task("check", within=3600), task("all", quota=None))
    made = OnceTask.objects.get(pk=step_of(run, "check").task)
    assert made.end_at is not None
    tasks.update_task(task=made, changes={"status": "paused"}, actor="admin:olga")
    looks(mail, 300)
    assert states(run) == {"check": "active", "all": "active"}
    called_back("uid_ann", result=1)
    looks(mail, 300)
    assert states(run)["all"] == "active"
    # Nobody is left who could be next.
    executors.change_members(group=group, remove=["uid_ann", "uid_ben"], actor="admin:olga")
    looks(mail, 300)
    assert states(run)["all"] == "succeeded" and step_of(run, "all").result == [1]
    looks(mail, 3600)
    assert states(run)["check"] == "failed" and run_of(run).status == "failed"


def test_runs_that_wait_for_people_are_looked_at_together(mail: FrozenClock) -> None:
    factories.group(members=["uid_ann", "uid_ben"])
    found: list[list[int]] = []

    def look() -> int:
        mail.advance(seconds=300)
        return len(sent_by(lambda: found.append(ends.due(clock.now()))))

    first = started(task("check"))
    alone = look()
    more = [started(task("check")) for _ in range(5)]
    assert look() == alone and found == [[], []]
    called_back("uid_ann")
    look()
    assert found[-1] == [first] and states(first) == {"check": "active"}
    control.skip(run=run_of(more[0]), step="check", **OLGA)
    assert run_of(more[0]).status == "succeeded"
