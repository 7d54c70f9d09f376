"""What is removed of deliveries and alerts, and when."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.alerts.models import Alert, Delivery
from apps.alerts.services.invariants import CHECKS
from apps.common import clock
from apps.common.sweeps import tidy_up
from tests.alerts import channel, evaluate, rule
from tests.frozen import FrozenClock
from tests.jobs import job_type, jobs

pytestmark = pytest.mark.django_db


@pytest.fixture
def sent(frozen_clock: FrozenClock) -> FrozenClock:
    """Two alerts of which people were notified; the first one is over."""
    for name in ("mail", "photo"):
        job_type(name)
        jobs(1, name, run_at=clock.now() - timedelta(hours=1))
        rule(name, "oldest_due", target=name, for_seconds=0, channels=[channel(name)])
    evaluate()
    Alert.objects.filter(subject="job_type:mail").update(
        resolved_at=clock.now(), open_key=None, unsent=""
    )
    return frozen_clock


def purge() -> int:
    return tidy_up()


def left() -> tuple[int, list[str]]:
    subjects = Alert.objects.order_by("subject").values_list("subject", flat=True)
    return Delivery.objects.count(), list(subjects)


def test_deliveries_and_resolved_alerts_go_after_their_time(sent: FrozenClock) -> None:
    sent.advance(days=90)
    assert purge() == 0
    sent.advance(seconds=1)

    assert purge() == 3

    # What still fires stays.
    assert left() == (0, ["job_type:photo"])


def test_alert_stays_as_long_as_a_delivery_of_it(sent: FrozenClock) -> None:
    sent.advance(days=91)
    Delivery.objects.update(created_at=clock.now())

    assert purge() == 0
    assert left()[1] == ["job_type:mail", "job_type:photo"]


@pytest.mark.both
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"open_key": None}, "is open without the key"),
        ({"resolved_at": "now"}, "is resolved, but keeps"),
    ],
)
def test_audit_names_a_broken_key(sent: FrozenClock, changes: dict[str, Any], words: str) -> None:
    """I66."""
    check = CHECKS[0]
    assert list(check.run(100).breaches) == []
    if "resolved_at" in changes:
        changes = {"resolved_at": clock.now()}
    Alert.objects.filter(subject="job_type:photo").update(**changes)

    [breach] = check.run(100).breaches

    assert (breach.invariant, words in breach.text) == ("I66", True)


@pytest.mark.both
def test_audit_names_two_open_ones_about_a_subject(sent: FrozenClock) -> None:
    """I66."""
    twin = Alert.objects.get(subject="job_type:photo")
    twin.pk, twin.open_key = None, "another"
    twin.save(force_insert=True)

    [breach] = CHECKS[0].run(100).breaches

    assert breach.text == "is one of 2 open ones about job_type:photo"
