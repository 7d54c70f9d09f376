"""What people plan to have sent regularly: by whom, when first, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

from apps.alerts.models import ReportPlan
from apps.alerts.services import report_plans
from apps.common.errors import Invalid
from tests.alerts import channel, report_plan
from tests.frozen import FrozenClock

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_clock")]


@pytest.mark.both
def test_whoever_saves_a_plan_owns_it(owner: User) -> None:
    made = report_plan(owner)
    other = User.objects.create_user("bea", is_staff=True)
    other.groups.add(Group.objects.get(name="operator"))

    changed = report_plans.update_plan(
        plan=made, changes={}, version=made.version, owner=other, actor="admin:bea"
    )

    assert changed.owner == other


@pytest.mark.parametrize("fraction", [0, 300_000])
def test_first_time_of_every_hour_is_in_an_hour(
    frozen_clock: FrozenClock, owner: User, fraction: int
) -> None:
    """Whatever the fraction of the second in which it is planned."""
    frozen_clock.advance(microseconds=fraction)
    rule = {"every_minutes": 60}
    made = report_plan(owner, rule=rule, channels=[channel()])
    fields = {"rule": rule, "time_zone": "UTC"}
    [previewed] = report_plans.next_times(ReportPlan(), fields, 1)
    assert made.next_at == previewed == datetime(2026, 3, 2, 10, tzinfo=UTC)

    # The form that shows it keeps what it counts from, until the rule is another one.
    frozen_clock.advance(minutes=10)
    assert report_plans.next_times(made, fields, 1) == [previewed]
    [other] = report_plans.next_times(made, {**fields, "rule": {"every_minutes": 30}}, 1)
    assert other == datetime(2026, 3, 2, 9, 40, tzinfo=UTC)


# --- what is refused ------------------------------------------------------------------------------
def test_wrong_values_are_named(owner: User, subtests: pytest.Subtests) -> None:
    for values, field, words in [
        ({"title": " "}, "title", "A title has 1 to 200 characters"),
        ({"query": "by=colour"}, "query", "by=colour is none of"),
        ({"query": "from=2026-03-01T00:00&to=2026-03-02T00:00"}, "query", "has fixed times"),
        ({"query": "x" * 1001}, "query", "too long"),
        ({"query": "https://tasks.example.org/admin/jobs/job/?status=failed"}, "query", "'status'"),
        ({"query": "http://[half"}, "query", "copy the address of a report page"),
        ({"rule": {}}, "rule", "A rule is needed"),
        ({"rule": {"cron": "61 * * * *"}}, "rule.cron", "61"),
        ({"rule": {"cron": "0 9 L/2 * *"}}, "rule.cron", "a last day has no steps"),
        ({"rule": {"cron": "*/90 * * * *"}}, "rule.cron", "a step of 90 is none"),
        ({"time_zone": "Mars"}, "time_zone", "There is no time zone"),
    ]:
        with subtests.test(values=values):
            with pytest.raises(Invalid) as refused:
                report_plan(owner, **values)
            [error] = refused.value.errors
            assert (error.field, words in str(error.message)) == (field, True)


def test_rule_that_an_earlier_release_took_stays_until_it_is_changed(owner: User) -> None:
    made, odd = report_plan(owner), {"cron": "0 9 L/2 * *"}
    ReportPlan.objects.update(rule=odd)
    again: Any = {"version": made.version, "owner": owner, "actor": "admin:ann"}

    made = report_plans.update_plan(plan=made, changes={"title": "Each month"}, **again)

    assert (made.title, made.rule) == ("Each month", odd)
    with pytest.raises(Invalid, match="a last day has no steps"):
        changes = {"rule": {"cron": "0 8 L/2 * *"}}
        report_plans.update_plan(plan=made, changes=changes, **again | {"version": made.version})


def test_address_of_a_page_is_enough(owner: User, subtests: pytest.Subtests) -> None:
    for text in [
        "https://tasks.example.org/admin/reports/?source=dispatch&by=executor&period=7d&zone=UTC",
        "?source=dispatch&by=executor&period=7d&zone=UTC#table",
        "http://[half?source=dispatch&by=executor&period=7d&zone=UTC",
        "source=dispatch&by=executor&period=7d&zone=UTC",
    ]:
        with subtests.test(text=text):
            made = report_plan(owner, query=text)
            assert made.query == "source=dispatch&by=executor&period=7d&zone=UTC"
