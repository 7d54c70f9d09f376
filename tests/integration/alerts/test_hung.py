"""Servers that take a connection and never answer: they delay no message but their own."""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.test import Client

from apps.alerts import sweeps
from apps.alerts.channels.contract import OK, RETRY, Answer, Verdict
from apps.alerts.handlers import deliver, send_report
from apps.alerts.models import Channel, Delivery
from apps.alerts.services import mailing, notify, report_runs, sending, settings, silence, waiting
from apps.common import clock
from apps.jobs.handlers import Fail, Later, Retry
from tests.alerts import Attempt, Receiver, address, channel, report_plan, use_mail_server
from tests.frozen import FrozenClock
from tests.pages import text_of
from tests.stub_server import Handler, Stub, answering, serving

pytestmark = pytest.mark.django_db

HUNG = 10


def made(to: Channel) -> Delivery:
    message = {"title": "t", "text": "t", "url": "https://x", "open": "o", "wire": {}}
    return notify.deliver(to, "alert.firing", message, now=clock.now())


@pytest.fixture
def hung(site: Receiver, settings: Any) -> Iterator[Stub]:
    """A server that answers nobody before the site has got a message: in a queue with that, never.
    `seen` says whether it had."""
    with serving() as stub:

        def behave(handler: Handler) -> None:
            deadline = time.monotonic() + 8
            while not site.taken and time.monotonic() < deadline:
                stub.over.wait(0.01)
            stub.got_by.append(bool(site.taken))  # type: ignore[attr-defined]
            handler.answer(503, b"", {})

        stub.got_by = []  # type: ignore[attr-defined]
        stub.behaves(behave)
        settings.ALERT_HOSTS = (*settings.ALERT_HOSTS, f"127.0.0.1:{stub.server_port}")
        yield stub


def several(hung: Stub, site: Receiver) -> list[Channel]:
    """Channels to the hung server, and after them the one that works."""
    bad = [channel(f"hung {number}", url=hung.url) for number in range(HUNG)]
    return [*bad, channel("good", url=site.url)]


@pytest.mark.both
def test_sweep_calls_the_servers_side_by_side(
    frozen_clock: FrozenClock, site: Receiver, hung: Stub
) -> None:
    for each in several(hung, site):
        made(each)
    frozen_clock.advance(seconds=60)

    assert sweeps.deliver() == 1

    assert hung.got_by == [True] * HUNG  # type: ignore[attr-defined]
    assert Delivery.objects.get(state="sent").channel.name == "good"


def test_report_goes_to_its_channels_side_by_side(
    frozen_clock: FrozenClock, site: Receiver, hung: Stub, owner: User
) -> None:
    plan = report_plan(owner, channels=several(hung, site))
    run = report_runs.send_now(plan=plan, actor="test")

    with pytest.raises(Retry):
        send_report({}, Attempt(job_id=run.job))

    assert hung.got_by == [True] * HUNG  # type: ignore[attr-defined]


def test_messages_to_one_channel_go_one_after_the_other(
    frozen_clock: FrozenClock, site: Receiver
) -> None:
    """Bots count what comes at once, and people read it in this order."""
    to = channel(url=site.url)
    rows = [made(to) for _ in range(5)]
    frozen_clock.advance(seconds=60)

    assert sweeps.deliver() == 5

    assert [each.headers["idempotency-key"] for each in site.taken] == [str(r.pk) for r in rows]


# --- a server that is known for it ----------------------------------------------------------------
class Line:
    """A server that takes ten seconds for nothing while it `hangs`; `calls` are those it got."""

    def __init__(self, frozen: FrozenClock) -> None:
        self.frozen = frozen
        self.hangs = True
        self.calls: list[str] = []

    def called(self, to: Channel, message: Any, _now: Any) -> Answer:
        self.calls.append(message.id)
        if not self.hangs:
            return 200, Verdict(OK)
        self.frozen.advance(seconds=10)
        return None, Verdict(RETRY, "no answer")


@pytest.fixture
def line(frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch) -> Line:
    found = Line(frozen_clock)
    monkeypatch.setattr(sending, "called", found.called)
    return found


def put_off(delivery: Delivery, attempt: int = 1) -> timedelta:
    """How long a worker leaves the delivery alone, which is none of its tries."""
    tries = Delivery.objects.get(pk=delivery.pk).tries
    with pytest.raises(Later) as caught:
        deliver({"delivery": delivery.pk}, Attempt(attempt))
    assert Delivery.objects.get(pk=delivery.pk).tries == tries
    return caught.value.run_at


@pytest.mark.both
def test_sweep_asks_a_silent_server_again_by_one_message_and_no_worker_does(
    frozen_clock: FrozenClock, line: Line
) -> None:
    to = channel()
    first, second, third = rows = [made(to) for _ in range(3)]
    with pytest.raises(Retry, match="no answer"):
        deliver({"delivery": first.pk}, Attempt())
    # Until 10 s after the call, and a round of the sweep later.
    assert [put_off(each) for each in (second, third)] == [timedelta(seconds=25)] * 2
    frozen_clock.advance(seconds=10)
    assert put_off(second) == timedelta(seconds=15)
    sweeps.deliver()
    assert line.calls == [str(first.pk), str(second.pk)]

    line.hangs = False
    frozen_clock.advance(seconds=30)
    assert sweeps.deliver() == 3

    assert sorted(line.calls[2:]) == sorted(str(each.pk) for each in rows)
    assert [deliver({"delivery": each.pk}, Attempt()) for each in rows] == [{"code": 200}] * 3


def test_worker_asks_where_no_sweep_does(frozen_clock: FrozenClock, line: Line) -> None:
    to = channel()
    first, second = made(to), made(to)
    with pytest.raises(Retry):
        deliver({"delivery": first.pk}, Attempt())
    frozen_clock.advance(seconds=69)
    put_off(second)
    frozen_clock.advance(seconds=1)
    line.hangs = False

    assert deliver({"delivery": second.pk}, Attempt()) == {"code": 200}


def test_while_one_asks_again_nobody_else_does(
    frozen_clock: FrozenClock, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = channel()
    first, second, third = (made(to) for _ in range(3))
    with pytest.raises(Retry):
        deliver({"delivery": first.pk}, Attempt())
    frozen_clock.advance(seconds=70)
    waits = []
    message_of = sending._message_of

    def meanwhile(delivery: Delivery) -> Any:
        monkeypatch.setattr(sending, "_message_of", message_of)
        waits.append(put_off(third))
        return message_of(delivery)

    monkeypatch.setattr(sending, "_message_of", meanwhile)
    with pytest.raises(Retry):
        deliver({"delivery": second.pk}, Attempt())

    assert (waits, len(line.calls)) == ([timedelta(seconds=55)], 2)


def test_silent_server_is_asked_less_and_less_and_other_channels_at_once(
    frozen_clock: FrozenClock, line: Line
) -> None:
    to, good = channel(), channel("good")
    asked = []
    for _ in range(900):
        before = len(line.calls)
        made(to)
        sweeps.deliver()
        if len(line.calls) > before:
            asked.append(clock.now())
        frozen_clock.advance(seconds=1)
    waits = [(b - a).total_seconds() - 10 for a, b in pairwise(asked)]

    assert waits == sorted(waits)
    assert len({*waits}) > 3
    assert waits[-1] == silence.LONGEST.total_seconds()
    line.hangs = False
    assert deliver({"delivery": made(good).pk}, Attempt()) == {"code": 200}


def test_job_of_a_message_that_the_sweep_gave_up_fails_with_it(
    frozen_clock: FrozenClock, line: Line
) -> None:
    row = made(channel())
    Delivery.objects.update(state="failed", answer="no answer", tries=8)
    with pytest.raises(Fail, match="no answer"):
        deliver({"delivery": row.pk}, Attempt(2))
    line.hangs = False

    assert deliver({"delivery": row.pk}, Attempt()) == {"code": 200}


def test_sweep_leaves_a_silent_server_alone_and_ends_old_messages(
    frozen_clock: FrozenClock, line: Line
) -> None:
    to = channel()
    rows = [made(to) for _ in range(4)]
    frozen_clock.advance(seconds=60)

    sweeps.deliver()

    assert line.calls == [str(rows[0].pk)]
    frozen_clock.advance(hours=25)
    silence.note(to.pk, Verdict(RETRY), timedelta(seconds=10))
    with pytest.raises(Fail, match="not sent within a day"):
        deliver({"delivery": rows[1].pk}, Attempt())
    assert Delivery.objects.get(pk=rows[1].pk).state == "failed"


@pytest.mark.both
def test_many_messages_to_silent_servers_leave_room_for_news(
    frozen_clock: FrozenClock, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_AT_ONCE", 3)
    to, good = channel(), channel("good")
    for _ in range(5):
        made(to)
    news = made(good)
    frozen_clock.advance(seconds=60)
    silence.note(to.pk, Verdict(RETRY), timedelta(seconds=10))
    frozen_clock.advance(seconds=60)

    sweeps.deliver()

    assert line.calls[0] == str(news.pk)


def test_tests_are_sent_at_once_and_another_address_is_not_waited_for(
    frozen_clock: FrozenClock, line: Line
) -> None:
    to = channel()
    with pytest.raises(Retry):
        deliver({"delivery": made(to).pk}, Attempt())
    line.hangs = False
    test = notify.send_test(to, actor="test")
    silence.note(to.pk, Verdict(RETRY), timedelta(seconds=10))
    assert deliver({"delivery": test.pk}, Attempt()) == {"code": 200}
    silence.note(to.pk, Verdict(RETRY), timedelta(seconds=10))

    settings.update(to, {"url": "https://alerts.example.org/new"}, version=1, actor="test")

    assert deliver({"delivery": made(to).pk}, Attempt()) == {"code": 200}


def test_page_of_a_channel_says_that_its_server_is_silent(
    line: Line, client: Client, admin_user: User
) -> None:
    to = channel()
    with pytest.raises(Retry):
        deliver({"delivery": made(to).pk}, Attempt())
    client.force_login(admin_user)
    page = address("channel", "change", to.pk)
    assert "has not answered since 2026-03-02 09:00:00" in text_of(client.get(page))
    line.hangs = False
    deliver({"delivery": notify.send_test(to, actor="test").pk}, Attempt())

    assert "has not answered" not in text_of(client.get(page))


@pytest.mark.both
@pytest.mark.parametrize("hangs", [True, False])
def test_channel_that_is_deleted_during_a_call_breaks_nothing(
    line: Line, monkeypatch: pytest.MonkeyPatch, caplog: Any, hangs: bool
) -> None:
    line.hangs = hangs
    to, good = channel(), channel("good")
    rows = [made(to), made(good)]
    line.frozen.advance(seconds=60)

    message_of = sending._message_of

    def deleted(delivery: Delivery) -> Any:
        found = message_of(delivery)
        if delivery == rows[0]:
            to.delete()
        return found

    monkeypatch.setattr(sending, "_message_of", deleted)
    sweeps.deliver()

    assert sorted(line.calls) == sorted(str(each.pk) for each in rows)
    assert "failed; the others go on" not in caplog.text


# --- a database that goes away --------------------------------------------------------------------
@pytest.mark.both
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("by", ["sweep", "worker"])
def test_message_that_was_taken_while_the_database_was_away_is_not_sent_again(
    frozen_clock: FrozenClock, line: Line, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    line.hangs = False
    row = made(channel())
    frozen_clock.advance(seconds=60)
    away = 0

    def called(*given: Any) -> Answer:
        nonlocal away
        away = 3
        return line.called(*given)

    def refuse(execute: Any, *statement: Any) -> Any:
        nonlocal away
        if away:
            away -= 1
            raise OperationalError(2006, "Server has gone away")
        return execute(*statement)

    monkeypatch.setattr(sending, "called", called)
    monkeypatch.setattr(sending, "_AWAY_SECONDS", 0.0)
    with connection.execute_wrapper(refuse):
        if by == "sweep":
            sweeps.deliver()
        else:
            deliver({"delivery": row.pk}, Attempt())

    assert (away, Delivery.objects.get(pk=row.pk).state) == (0, "sent")
    frozen_clock.advance(hours=1)
    sweeps.deliver()
    assert line.calls == [str(row.pk)]


# --- mail -----------------------------------------------------------------------------------------
def drips(line: Callable[[], bytes]) -> type[socketserver.StreamRequestHandler]:
    class Drip(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            try:
                while True:
                    self.wfile.write(line())
                    threading.Event().wait(0.05)
            except OSError:
                return

    return Drip


def test_mail_server_that_says_a_little_all_the_time_has_an_end(
    frozen_clock: FrozenClock, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line began the time of the socket anew: a mail took hours, and a worker with it."""
    monkeypatch.setattr(mailing, "SECONDS", 0.5)
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), drips(lambda: b"220-wait\r\n"))
    server.daemon_threads = True
    with answering(server):
        use_mail_server(settings, server.server_address[1])
        delivery = made(channel(kind="mail", url="", recipients=["ann@example.com"]))

        with pytest.raises(Retry, match=r"did not answer within 0\.5 s"):
            deliver({"delivery": delivery.pk}, Attempt())
