"""Deliveries reach servers, signed, and what these answer decides."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from email import message_from_string
from email.policy import default
from email.utils import format_datetime
from typing import Any

import pytest

from apps.alerts.handlers import deliver
from apps.alerts.models import Channel, Delivery, Event
from apps.alerts.services.notify import send_test
from apps.common import clock
from apps.jobs.handlers import Fail, Retry
from apps.jobs.models import Job
from apps.journal.models import JournalEntry
from tests.alerts import Attempt, Mailbox, Receiver, channel, evaluate, rule, use_mail_server
from tests.jobs import job_type, jobs

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_clock")]


def carry_out(attempt: int = 1) -> Any:
    """Run the handler on the only delivery, as a worker does."""
    return deliver({"delivery": Delivery.objects.get().pk}, Attempt(attempt))


def refused(made: Channel) -> Delivery:
    """A test of the channel that came to nothing."""
    send_test(made, actor="admin:olga")
    with pytest.raises(Fail):
        carry_out()
    return Delivery.objects.get()


def firing(made: Any, *, name: str = "late <b>") -> None:
    job_type()
    jobs(1, run_at=clock.now() - timedelta(hours=1))
    rule(name, "oldest_due", for_seconds=0, severity="critical", channels=[made])
    evaluate()


def test_webhook_gets_the_signed_message(site: Receiver) -> None:
    firing(channel(url=f"{site.url}/in?a=1", secret="s3cret"))

    carry_out()

    [taken] = site.taken
    delivery = Delivery.objects.get()
    assert taken.path == "/in?a=1"
    second = taken.headers["x-taskplatform-timestamp"]
    signed = hmac.new(b"s3cret", f"{second}.".encode() + taken.body, hashlib.sha256).hexdigest()
    assert taken.headers["x-taskplatform-signature"] == f"v1={signed}"
    body = json.loads(taken.body)
    assert body["id"] == taken.headers["idempotency-key"] == str(delivery.pk)
    assert body["event"] == "alert.firing"
    assert body["subject"] == {"kind": "job_type", "name": "mail"}
    assert (body["severity"], body["value"], body["threshold"]) == ("critical", 3600.0, 300.0)
    assert body["at"] == "2026-03-02T09:00:00Z"
    assert (delivery.state, delivery.code) == ("sent", 200)


def test_busy_server_is_tried_again_until_the_last_attempt(site: Receiver) -> None:
    site.answers = [(503, b"later")]
    firing(channel(url=site.url))
    with pytest.raises(Retry, match="later"):
        carry_out()
    assert Delivery.objects.get().state == "waiting"

    with pytest.raises(Fail, match="later"):
        carry_out(attempt=8)

    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.code, delivery.answer) == ("failed", 503, "later")


def test_other_side_names_when_to_try_again(site: Receiver, subtests: pytest.Subtests) -> None:
    """By both forms of RFC 9110, between the usual delay and the longest; bots say so with a 200,
    too."""
    in_half_an_hour = format_datetime(datetime.now(UTC) + timedelta(minutes=30), usegmt=True)
    busy = b'{"errcode": 45009, "errmsg": "api freq out of limit"}'
    firing(channel(kind="wecom", url=f"{site.url}/send?key=1"))
    for status, body, text, low, high in (
        (429, b"", "120", 120, 120),
        (503, b"", " 70 ", 70, 70),
        (503, b"", "0", 10, 10),
        (503, b"", in_half_an_hour, 1_790, 1_800),
        (429, b"", "9" * 30, 3_600, 3_600),
        (200, busy, "120", 120, 120),
        (503, b"", "soon", 1, 30),
        (503, b"", None, 1, 30),
    ):
        with subtests.test(status=status, text=text):
            site.answers, site.headers = [(status, body)], {"Retry-After": text} if text else {}
            with pytest.raises(Retry) as caught:
                carry_out()
            waits = Delivery.objects.get().next_at - clock.now()
            assert low <= waits.total_seconds() <= high
            if low > 1:
                assert caught.value.after == waits
                assert caught.value.is_asked


def test_server_that_wants_to_be_asked_at_once_has_its_tries_for_hours(site: Receiver) -> None:
    """It answers so while it starts anew: all eight were over after 16 s, and nobody was called."""
    site.answers, site.headers = [(503, b"")] * 8, {"Retry-After": "2"}
    firing(channel(url=site.url))
    waited = timedelta()
    for attempt in range(1, 8):
        with pytest.raises(Retry) as caught:
            carry_out(attempt)
        waited += caught.value.after
    assert waited > timedelta(hours=1)


def test_unknown_code_of_a_bot_is_tried_three_times(site: Receiver) -> None:
    site.answers = [(200, b'{"errcode": 310000, "errmsg": "sign not match"}')]
    firing(channel(kind="dingtalk", url=f"{site.url}/robot/send?access_token=T0KEN", secret="S"))
    for attempt in (1, 2):
        with pytest.raises(Retry, match="310000: sign not match"):
            carry_out(attempt)

    with pytest.raises(Fail, match="310000: sign not match"):
        carry_out(3)


def test_answer_that_repeats_the_key_of_the_address_is_masked(site: Receiver) -> None:
    site.answers = [(400, b"bad /hook/T0KEN?k=K3Y with S3CRET")]

    found = refused(channel(url=f"{site.url}/hook/T0KEN?k=K3Y", secret="S3CRET"))

    assert (found.state, found.code, found.answer) == ("failed", 400, "bad …?… with …")


@pytest.mark.parametrize(
    ("address", "answer", "shown"),
    [
        ("/services/T0/Xk3yOfTheBot", "no_service: Xk3yOfTheBot", "no_service: …"),
        ("/send?access_token=81f3c0ffee", "token 81f3c0ffee is gone", "token … is gone"),
        ("/send?key=81f3%2Bc0ffee", "81f3+c0ffee, 81f3%2Bc0ffee", "…, …"),
        ("/api/hook/81f3c0ffee", r"bad \/api\/hook\/81f3c0ffee", r"bad \/api\/hook\/…"),
    ],
)
def test_answer_that_repeats_the_key_alone_is_masked(
    site: Receiver, address: str, answer: str, shown: str
) -> None:
    site.answers = [(400, answer.encode())]

    assert refused(channel(url=f"{site.url}{address}")).answer == shown


def test_host_that_is_not_listed_is_not_called(site: Receiver, settings: Any) -> None:
    settings.ALERT_HOSTS = ("alerts.example.org",)

    found = refused(channel(url=site.url))

    assert (site.taken, found.state) == ([], "failed")
    assert found.answer.endswith(
        "is not allowed. Add it to ALERT_HOSTS, which has: alerts.example.org; then start anew."
    )


def test_address_that_is_not_public_is_not_called(site: Receiver, settings: Any) -> None:
    settings.JOB_HTTP_NETWORKS = ()

    found = refused(channel(url=site.url))

    assert (site.taken, found.state) == ([], "failed")
    assert "not public" in found.answer


def test_test_says_what_it_is_and_is_tried_once(site: Receiver) -> None:
    made = send_test(channel(url=site.url), actor="admin:olga")
    assert Job.objects.get(pk=made.job).max_attempts == 1

    carry_out()

    assert json.loads(site.taken[0].body)["event"] == Event.TEST
    made.refresh_from_db()
    assert (made.event, made.state) == (Event.TEST, "sent")
    assert JournalEntry.objects.get(event="channel_tested").actor == "admin:olga"


# --- mail -----------------------------------------------------------------------------------------
def test_mail_goes_to_all_recipients_in_two_forms(post: Mailbox) -> None:
    firing(channel(kind="mail", url="", recipients=["a@example.org", "b@example.org"]))

    carry_out()

    [mail] = post.mails
    assert "To: a@example.org, b@example.org" in mail
    assert "text/plain" in mail and "text/html" in mail
    assert Delivery.objects.get().code == 250


@pytest.mark.parametrize(
    ("answer", "error"), [("451 greylisted", Retry), ("550 no such user", Fail)]
)
def test_mail_server_that_refuses(post: Mailbox, answer: str, error: type[Exception]) -> None:
    post.to_recipient = answer
    firing(channel(kind="mail", url="", recipients=["a@example.org"]))

    with pytest.raises(error, match=answer[4:]):
        carry_out()

    assert Delivery.objects.get().code == int(answer[:3])


def test_mail_that_some_recipients_do_not_get_is_sent_once_and_says_so(post: Mailbox) -> None:
    post.to_one = {"b@example.org": "550 no such user"}
    firing(channel(kind="mail", url="", recipients=["a@example.org", "b@example.org"]))

    carry_out()

    sent = Delivery.objects.get()
    assert (len(post.mails), sent.state) == (1, "sent")
    assert sent.answer == "b@example.org: 550 no such user"


def test_address_of_an_earlier_release_that_is_none_is_told(post: Mailbox) -> None:
    """It would go to a mailbox named `=?utf-8?q?=C3=A4nn?=`."""
    made = channel(kind="mail", url="", recipients=["a@example.org"])
    Channel.objects.update(recipients=["a@example.org", "änn@example.org"])
    firing(made)

    with pytest.raises(Fail, match=r"änn@example\.org' is no mail address"):
        carry_out()

    assert post.mails == []


def test_names_turn_no_letters_and_begin_no_header(post: Mailbox) -> None:
    name = "\u202egnp.exe\x1b[31m \r\nBcc: eve@example.org " + "x" * 50
    firing(channel(kind="mail", url="", recipients=["a@example.org"]), name=name)

    carry_out()

    [mail] = post.mails
    head = mail.replace("\r\n", "\n").partition("\n\n")[0]
    subject = str(message_from_string(mail, policy=default)["subject"])
    assert "\nBcc" not in head
    assert "\\u202egnp.exe\\u001b[31m Bcc: eve@example.org" in subject
    assert "\u202e" not in mail and "\x1b" not in mail


def test_mail_server_that_is_away_is_tried_again(settings: Any) -> None:
    use_mail_server(settings, 1)
    made = channel(kind="mail", url="", recipients=["a@example.org"])
    firing(made)

    with pytest.raises(Retry, match=r"127\.0\.0\.1"):
        carry_out()
