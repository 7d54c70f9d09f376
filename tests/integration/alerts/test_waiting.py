"""A pager whose workers are killed, stopped or none sends all the same, and once. I68."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from apps.alerts import sweeps
from apps.alerts.handlers import deliver
from apps.alerts.models import Delivery
from apps.alerts.services import notify, sending, waiting
from apps.alerts.services.invariants import CHECKS
from apps.common import clock
from apps.common.errors import Invalid
from apps.jobs.handlers import Retry
from apps.jobs.models import Job, JobType
from apps.jobs.services import control
from apps.jobs.services.type_snapshots import forget_type_snapshots
from tests.alerts import Attempt, Receiver, channel
from tests.frozen import FrozenClock

pytestmark = pytest.mark.django_db


def made(site: Receiver, name: str = "ops") -> Delivery:
    """A message that is not tried once only, as tests are."""
    to = channel(name, url=site.url)
    message = {"title": "t", "text": "t", "url": "https://x", "open": "o", "wire": {}}
    return notify.deliver(to, "alert.firing", message, now=clock.now())


def sweep() -> int:
    return sweeps.deliver()


def now_of(delivery: Delivery) -> tuple[str, int | None, str]:
    delivery.refresh_from_db()
    return delivery.state, delivery.code, delivery.answer


def by_worker(delivery: Delivery, attempt: int = 1) -> Any:
    return deliver({"delivery": delivery.pk}, Attempt(attempt))


# --- stopped, or none -----------------------------------------------------------------------------
def _nobody_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has to be done for that."""


def _paused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As people could pause it in earlier releases."""
    notify.ensure_types([notify.TYPE], {notify.TYPE: notify.TYPE_SETTINGS})
    JobType.objects.update(paused=True)
    forget_type_snapshots()


def _refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any, **_values: Any) -> None:
        raise Invalid.field("context", "refused")

    monkeypatch.setattr(notify, "submit", refuse)


@pytest.mark.parametrize("lacking", [_nobody_serves, _paused, _refused])
def test_what_no_worker_sends_in_a_minute_the_sweep_sends_once(
    frozen_clock: FrozenClock,
    site: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    lacking: Callable[[pytest.MonkeyPatch], None],
) -> None:
    lacking(monkeypatch)
    delivery = made(site)
    frozen_clock.advance(seconds=59)
    assert (sweep(), site.taken) == (0, [])
    frozen_clock.advance(seconds=1)

    assert sweep() == 1

    assert now_of(delivery) == ("sent", 200, "")
    # The worker that comes at last has nothing to do.
    assert (sweep(), by_worker(delivery), len(site.taken)) == (0, {"code": 200}, 1)


def test_news_are_sent_before_the_next_try_of_what_nobody_takes(
    frozen_clock: FrozenClock, site: Receiver
) -> None:
    """Each hung server would take ten seconds of the round before them."""
    hung = made(site, "hung")
    site.answers = [(503, b"busy")]
    frozen_clock.advance(seconds=60)
    sweep()
    news = made(site, "news")
    frozen_clock.advance(hours=1)

    sweep()

    assert [each.headers["idempotency-key"] for each in site.taken] == [
        *(str(hung.pk), str(news.pk), str(hung.pk)),
    ]


# --- killed ---------------------------------------------------------------------------------------
@pytest.mark.both
def test_what_a_killed_worker_had_is_sent_when_its_time_is_over(
    frozen_clock: FrozenClock, site: Receiver
) -> None:
    delivery = made(site)
    assert sending._take(delivery)
    frozen_clock.advance(seconds=59)
    with pytest.raises(Retry, match="Somebody else is sending it"):
        by_worker(delivery)
    assert (sweep(), site.taken) == (0, [])
    # Another worker is to have its minute, too.
    frozen_clock.advance(seconds=60)
    assert (sweep(), site.taken) == (0, [])
    frozen_clock.advance(seconds=1)

    assert (sweep(), len(site.taken)) == (1, 1)


def test_one_of_two_at_once_sends(
    frozen_clock: FrozenClock, site: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that comes while the sweep sends, and a sweep that comes while a worker sends."""
    delivery = made(site)
    frozen_clock.advance(seconds=60)
    others = []
    message_of = sending._message_of

    def meanwhile(row: Delivery) -> Any:
        fresh = Delivery.objects.get()
        others.append(sending.send(fresh, attempt=1, is_last=False))
        others.append(waiting.send_waiting(until=clock.now() + timedelta(seconds=1)))
        return message_of(row)

    monkeypatch.setattr(sending, "_message_of", meanwhile)

    assert sweep() == 1

    assert (others, len(site.taken), now_of(delivery)[0]) == ([None, 0], 1, "sent")


@pytest.mark.both
@pytest.mark.parametrize("answer", [(200, b"ok"), (503, b"later"), (404, b"gone")])
def test_worker_that_read_it_before_another_tried_sends_nothing(
    frozen_clock: FrozenClock, site: Receiver, answer: tuple[int, bytes]
) -> None:
    site.answers = [answer]
    made(site)
    first, second = Delivery.objects.get(), Delivery.objects.get()

    assert sending.send(first, attempt=1, is_last=False) is not None
    assert sending.send(second, attempt=1, is_last=False) is None

    assert len(site.taken) == 1


@pytest.mark.both
def test_answer_that_comes_too_late_is_kept_only_if_it_was_taken(
    frozen_clock: FrozenClock, site: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    delivery = made(site)
    message_of = sending._message_of

    def slowly(row: Delivery) -> Any:
        monkeypatch.setattr(sending, "_message_of", message_of)
        frozen_clock.advance(seconds=130)
        assert sweep() == 0
        return message_of(row)

    busy, kept = (503, b"later"), ("waiting", 503, "later")
    for own, found in (((404, b"gone"), kept), ((200, b""), ("sent", 200, ""))):
        site.answers = [busy, own]
        monkeypatch.setattr(sending, "_message_of", slowly)
        delivery.refresh_from_db()
        sending.send(delivery, attempt=1, is_last=False)
        assert now_of(delivery) == found
        frozen_clock.advance(hours=1)


# --- how often ------------------------------------------------------------------------------------
def test_sweep_tries_as_often_as_a_worker_and_then_fails(
    frozen_clock: FrozenClock, site: Receiver
) -> None:
    """I68."""
    site.answers = [(503, b"later")]
    delivery = made(site)
    for _ in range(20 * 60):
        frozen_clock.advance(seconds=30)
        sweep()
        if now_of(delivery)[0] != "waiting":
            break

    assert (now_of(delivery), len(site.taken)) == (("failed", 503, "later"), 8)


def test_sweep_leaves_a_try_that_is_due_later_to_the_worker(
    frozen_clock: FrozenClock, site: Receiver
) -> None:
    site.answers = [(503, b"later"), (200, b"ok")]
    delivery = made(site)
    frozen_clock.advance(seconds=60)
    with pytest.raises(Retry):
        by_worker(delivery, attempt=4)
    # Its fifth is due 200 seconds later, give or take some.
    frozen_clock.advance(seconds=4 * 60)
    assert (sweep(), len(site.taken)) == (0, 1)
    frozen_clock.advance(seconds=60)

    assert (sweep(), len(site.taken)) == (1, 2)


def test_delivery_that_breaks_keeps_no_other_from_being_sent_and_ends(
    frozen_clock: FrozenClock, site: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    broken, well = made(site, "broken"), made(site, "well")
    message_of = sending._message_of
    monkeypatch.setattr(
        sending, "_message_of", lambda row: 1 // 0 if row == broken else message_of(row)
    )
    frozen_clock.advance(seconds=60)

    assert (sweep(), now_of(well)[0], now_of(broken)[0]) == (1, "sent", "waiting")

    assert f"delivery {broken.pk} failed; the others go on" in caplog.text
    for _ in range(9):
        frozen_clock.advance(hours=2)
        sweep()
    assert now_of(broken)[0] == "failed"
    assert broken.answer.startswith("It was not sent: none of its tries came to an end")


# --- jobs that have ended otherwise ---------------------------------------------------------------
@pytest.mark.both
@pytest.mark.parametrize("act", [control.cancel, control.mark_done])
def test_delivery_whose_job_somebody_ended_is_not_sent(
    frozen_clock: FrozenClock, site: Receiver, act: Any
) -> None:
    delivery = made(site)
    act(job=Job.objects.get(), actor="test", reason="x")
    frozen_clock.advance(seconds=60)

    assert sweep() == 0

    answer = "It was not sent: somebody ended its job."
    assert (now_of(delivery), site.taken) == (("failed", None, answer), [])
    assert delivery.ended_at == clock.now()
    # A retry of the job sends it after all.
    assert by_worker(delivery) == {"code": 200}


@pytest.mark.parametrize("how", ["failed", "gone"])
def test_delivery_whose_job_was_lost_is_sent(
    frozen_clock: FrozenClock, site: Receiver, how: str
) -> None:
    made(site)
    if how == "gone":
        Job.objects.all().delete()
    else:
        Job.objects.update(status="failed", last_end="lost")
    frozen_clock.advance(seconds=60)

    assert (sweep(), len(site.taken)) == (1, 1)


@pytest.mark.both
def test_old_news_are_not_sent(frozen_clock: FrozenClock, site: Receiver) -> None:
    """As of a platform that stood still, or of an earlier release that forgot them."""
    delivery = made(site)
    frozen_clock.advance(hours=24, seconds=1)

    assert sweep() == 0

    assert now_of(delivery) == ("failed", None, "It was not sent within a day.")
    assert site.taken == []


def test_audit_names_what_waits_and_nobody_sends(frozen_clock: FrozenClock, site: Receiver) -> None:
    """I68."""
    check = next(each for each in CHECKS if each.invariants == ("I68",))
    delivery = made(site)
    frozen_clock.advance(minutes=14)
    assert list(check.run(100).breaches) == []
    frozen_clock.advance(minutes=1)

    [breach] = check.run(100).breaches

    assert str(breach) == (
        f"I68 delivery {delivery.pk}: waits since 2026-03-02 09:00 UTC, and nobody sends it"
    )
    sweep()
    assert list(check.run(100).breaches) == []
