"""Rotations in the admin: planned by rule, with the next instants and words beside it. S0.11,
S0.23, S0.31."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse

from apps.dispatch.models import RotateTask
from apps.dispatch.services import tasks
from tests import callback, factories
from tests.pages import nothing_drawn, rows_of, text_of

pytestmark = pytest.mark.usefixtures("alice")

ADD = "admin:dispatch_rotatetask_add"
LIST = "admin:dispatch_rotatetask_changelist"
CHANGE = "admin:dispatch_rotatetask_change"


def form(**fields: Any) -> dict[str, Any]:
    return {
        "title": "Check the till",
        "executor": "uid_alice",
        "status": "active",
        "time_zone": "Asia/Shanghai",
        "misfire": "skip",
        "misfire_limit": "10",
        "mode": "single",
        "dispatch_times": "1",
        "priority": "0",
        "lease_seconds": "3600",
        "on_failure": "finish",
        "on_expiry": "give_back",
        "max_rounds": "3",
        "params-raw": "{}",
        **fields,
    }


def test_rule_is_planned_by_its_parts(admin_client: Any) -> None:
    page = admin_client.post(reverse(ADD), form(every_days="2", at="09:30"))

    assert page.status_code == 302, page.context["adminform"].form.errors
    task = RotateTask.objects.get()
    assert (task.rule, task.time_zone) == ({"every_days": 2, "at": "09:30"}, "Asia/Shanghai")
    assert task.created_by == "admin:admin"


WRONG_RULES: list[tuple[dict[str, str], str]] = [
    ({}, "every_minutes"),
    ({"cron": "61 * * * *"}, "cron"),
    ({"cron": "0 9 * *"}, "cron"),
    ({"cron": "0 0 30 2 *"}, "cron"),
    ({"every_days": "1", "at": "25:00"}, "at"),
    ({"every_minutes": "5", "time_zone": "Mars/Olympus"}, "time_zone"),
    ({"every_days": "few", "at": "25:00"}, "every_days"),
    ({"every_minutes": "5", "misfire_limit": "1001"}, "misfire_limit"),
]


def test_bad_rule_is_shown_beside_its_field(admin_client: Any, subtests: pytest.Subtests) -> None:
    """Of a part that cannot be read, nothing else is said."""
    for parts, field in WRONG_RULES:
        with subtests.test(parts=parts), nothing_drawn():
            page = admin_client.post(reverse(ADD), form(**parts))
            assert page.status_code == 200
            assert set(page.context_data["adminform"].form.errors) == {field}
            assert not RotateTask.objects.exists()


def test_all_mistakes_are_shown_at_once(admin_client: Any) -> None:
    """Of what cannot be read, and of rules that are broken."""
    sent = form(
        title="x" * 201,
        executor="uid_nobody",
        cron="61 * * * *",
        time_zone="Mars/Olympus",
        misfire_limit="0",
        priority="900",
        lease_seconds="much",
    )
    page = admin_client.post(reverse(ADD), sent)

    assert set(page.context["adminform"].form.errors) == {
        *("title", "executor", "cron", "time_zone", "misfire_limit", "priority", "lease_seconds")
    }


def test_page_shows_the_rule_in_words_and_what_is_due(admin_client: Any, role_client: Any) -> None:
    """Whoever may change it has the next ones in the form, and others ten of them above."""
    task = factories.rotation(factories.member("uid_alice"), rule={"cron": "0 10 * * *"})

    for client, last, after in ((admin_client, 6, 7), (role_client("viewer"), 11, 12)):
        page = client.get(reverse(CHANGE, args=[task.pk])).content.decode()

        assert "Daily at 10:00, UTC" in page
        assert "2026-03-03" in page
        assert f"2026-03-{last:02}" in page
        assert f"2026-03-{after:02}" not in page
        assert "uid_alice has 1 of at most 100 active repeating tasks." in page


def test_list_shows_rule_and_next_instant(admin_client: Any) -> None:
    task = factories.rotation(factories.member("uid_alice"))
    tasks.update_task(task=task, changes={"title": "Other"}, actor=factories.OPERATOR)

    page = admin_client.get(reverse(LIST)).content.decode()

    assert "every 30 minutes" in page
    assert "2026-03-02" in page


def test_edit_of_one_part_replaces_the_rule(admin_client: Any, frozen_clock: Any) -> None:
    """I23, I57: the rule is one value; other columns are not written."""
    task = factories.rotation(factories.member("uid_alice"), priority=7)
    frozen_clock.advance(minutes=1)
    filled = form(cron="0 9 * * 1-5", version="1", priority="7", time_zone="UTC")
    filled |= {"start_at_0": "2026-03-02", "start_at_1": "09:00:00"}

    page = admin_client.post(reverse(CHANGE, args=[task.pk]), filled)

    assert page.status_code == 302
    task = RotateTask.objects.get()
    assert (task.rule, task.version) == ({"cron": "0 9 * * 1-5"}, 2)
    assert task.effective_from == frozen_clock.instant


def test_list_shows_the_rotations_that_run_in_the_period(
    admin_client: Any, frozen_clock: Any
) -> None:
    """S0.31: seven days back and ahead by default."""
    alice, now = factories.member("uid_alice"), frozen_clock.instant
    for title, start, end in (
        ("over", -30, -8),
        ("until last week", -30, -6),
        ("for years", -800, None),
        ("from next week", 6, None),
        ("later", 8, None),
    ):
        ends = None if end is None else now + timedelta(days=end)
        factories.rotation(alice, title, start_at=now + timedelta(days=start), end_at=ends)

    assert titles(admin_client) == ["from next week", "for years", "until last week"]
    past = {"from_day": "2026-01-01", "to_day": "2026-02-15"}
    assert titles(admin_client, **past) == ["for years", "until last week", "over"]
    assert titles(admin_client, from_day="2026-03-10") == ["later", "from next week", "for years"]


def titles(client: Any, **query: str) -> list[str]:
    return [task.title for task in rows_of(client, reverse(LIST), **query)]


def test_list_shows_stock_and_room(admin_client: Any, frozen_clock: Any) -> None:
    """S0.23, S0.31: of the current occurrence, and of what the executor may have."""
    group = factories.group("gid_4", members=["uid_4"])
    for status in ("active", "active", "paused"):
        factories.rotation(group, mode="multi", dispatch_times=3, status=status)
    callback.take_next(factories.member("uid_4"))

    text = text_of(admin_client.get(reverse(LIST)))

    assert "1 / 3" in text
    assert "0 / 3" in text
    assert "gid_4 2 of 100 repeating tasks" in text
    frozen_clock.advance(minutes=30)
    assert "1 / 3" not in text_of(admin_client.get(reverse(LIST)))
