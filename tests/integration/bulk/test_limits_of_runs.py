"""A bulk run changes no more rows than agreed, and none beyond what its starter may change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

from apps.bulk.models import BulkRun
from apps.bulk.services import runs
from apps.bulk.services.targets import TARGETS
from apps.common.errors import Conflict
from apps.common.filtering import RowFilter
from apps.dispatch.models import OperatorScope
from apps.dispatch.services import pull
from apps.jobs.handlers import Cancelled, Fail
from apps.jobs.models import Job, JobScope, bounds_of
from apps.jobs.rules import transitions as t
from tests import factories
from tests.frozen import FrozenClock
from tests.integration.bulk.conftest import Attempt, again, carry_out, counts, statuses
from tests.jobs import jobs

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("mail")]
Start = Callable[..., BulkRun]


def test_more_rows_than_agreed_change_nothing(start: Start) -> None:
    numbers = jobs(4)
    run = start("cancel", {"type": "mail"}, at_most=3)
    carry_out(run)
    assert again(run).state == BulkRun.State.FAILED
    assert "More than 3 rows match" in again(run).why
    assert statuses(numbers) == {t.READY}
    with pytest.raises(Conflict, match="has ended"):
        runs.resume(run=run, actor="admin:olga", reason="again")


def test_limited_person_changes_only_jobs_within_the_limits(start: Start, operator: User) -> None:
    mails, webs = jobs(3), jobs(3, "web")
    JobScope.objects.create(operator=operator, type="web")
    operator = User.objects.get(pk=operator.pk)
    run = start("cancel", {"status": "ready"})
    carry_out(run)
    assert counts(run) == ("done", 3, 3, 0, 0)
    assert (statuses(mails), statuses(webs)) == ({t.READY}, {t.CANCELLED})


@pytest.mark.parametrize("types", [(), ("mail",)])
@pytest.mark.parametrize("people", [(), ("uid_ann",)])
def test_runs_reach_the_rows_that_the_person_sees_in_lists(
    types: tuple[str, ...], people: tuple[str, ...], operator: User, frozen_clock: FrozenClock
) -> None:
    """Rows of each kind, of two types and two people."""
    for name, type_ in (("uid_ann", "mail"), ("uid_bob", "web")):
        executor = factories.user(name)
        factories.once_task(executor)
        factories.rotation(executor)
        factories.job(type_)
        pull.answer_pull(name)
    for name in types:
        JobScope.objects.create(operator=operator, type=name)
    for name in people:
        OperatorScope.objects.create(operator=operator, executor=factories.member(name))
    operator = User.objects.get(pk=operator.pk)
    bounds = bounds_of(operator)

    for target in TARGETS.values():
        rows: Any = target.model._default_manager
        seen = {*rows.visible_to(operator).values_list("pk", flat=True)}
        for reached in (target.within(rows.all(), bounds), target.rows(RowFilter({}), bounds)):
            assert {*reached.values_list("pk", flat=True)} == seen, target.kind
        assert len(seen) == 2 or types or people


def test_limit_set_in_the_middle_holds_for_the_rest(start: Start, operator: User) -> None:
    mails, webs = jobs(110), jobs(110, "web")
    run = start("cancel", {"status": "ready"})

    def limit(_percent: float) -> None:
        if again(run).done == 100:
            JobScope.objects.create(operator=operator, type="web")

    carry_out(run, Attempt(run, limit))

    state, collected, done, skipped, _failed = counts(run)
    assert (state, collected, done + skipped) == ("done", 220, 220)
    assert Job.objects.filter(pk__in=mails, status=t.CANCELLED).count() <= 100
    assert statuses(webs) == {t.CANCELLED}


@pytest.mark.both
@pytest.mark.parametrize("loss", ["role", "account"])
def test_person_who_loses_the_right_stops_the_run(start: Start, operator: User, loss: str) -> None:
    numbers = jobs(250)
    run = start("cancel", {"type": "mail"})

    def lose(_percent: float) -> None:
        if again(run).done != 100:
            return
        if loss == "role":
            operator.groups.remove(Group.objects.get(name="operator"))
        else:
            User.objects.filter(pk=operator.pk).update(is_active=False)

    with pytest.raises(Cancelled, match="admin:operator may not do this any more"):
        carry_out(run, Attempt(run, lose))

    assert counts(run) == ("stopped", 250, 100, 0, 0)
    assert Job.objects.filter(pk__in=numbers, status=t.CANCELLED).count() == 100


def test_job_of_its_own_cannot_carry_out_a_run_of_another(start: Start) -> None:
    run = start("cancel", {"type": "mail"})
    other = Attempt(run)
    other.job_id = (run.job or 0) + 1
    with pytest.raises(Fail, match="no bulk run"):
        carry_out(run, other)
