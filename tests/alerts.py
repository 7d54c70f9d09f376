"""Helpers of tests of alerts: rules, channels, and servers that take what is sent."""

from __future__ import annotations

import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from django.urls import reverse

from apps.alerts.models import Alert, AlertRule, Channel, Delivery, ReportPlan
from apps.alerts.services import report_plans, settings
from apps.common import clock
from apps.reports.services import fact_sheet
from taskplatform.environment import mail_settings
from tests.stub_server import answering


def address(model: str, page: str, *args: object) -> str:
    """Of a page in the admin."""
    return reverse(f"admin:alerts_{model}_{page}", args=args)


def channel(name: str = "ops", **values: Any) -> Channel:
    values = {"kind": "webhook", "url": "https://alerts.example.org/in", **values}
    return settings.create_channel(name=name, actor="test", **values)


def rule(name: str = "mail fails", kind: str = "failure_rate", **values: Any) -> AlertRule:
    return settings.create_rule(name=name, kind=kind, actor="test", **values)


def report_plan(owner: Any, title: str = "Every morning", **values: Any) -> ReportPlan:
    """Jobs of 24 hours by type, every day at 08:00 UTC, unless the values say otherwise."""
    values = {
        "query": "source=job&by=type&period=24h&zone=UTC",
        "rule": {"every_days": 1, "at": "08:00"},
        "time_zone": "UTC",
        **values,
    }
    return report_plans.create_plan(title=title, owner=owner, actor="test", **values)


def delivery_about(subject: str) -> Delivery:
    """A delivery of an alert about the subject, which fires."""
    now = clock.now()
    made = rule("hidden rule", channels=[channel("hidden channel")])
    alert = Alert.objects.create(
        rule=made, subject=subject, value=1.0, since=now, fired_at=now, open_key=subject
    )
    message = {"title": subject, "text": subject}
    return Delivery.objects.create(
        alert=alert, channel=made.channels.get(), event="test", message=message, created_at=now
    )


def evaluate() -> dict[str, int]:
    """One round of the sweep, by what was just written."""
    from apps.alerts.services import judging

    fact_sheet.sheets.forget()
    return dict(judging.evaluate())


def sent() -> list[str]:
    """The events of the deliveries, oldest first."""
    return list(Delivery.objects.order_by("pk").values_list("event", flat=True))


def only() -> Alert:
    return Alert.objects.get()


class Attempt:
    """What the handler reads of its context."""

    max_attempts = 8

    def __init__(self, attempt: int = 1, job_id: int = 1) -> None:
        self.attempt, self.job_id = attempt, job_id


class Taken(NamedTuple):
    """A request as a channel's server received it; names of headers are lower."""

    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """A server of HTTP that keeps what it is sent; `answers` are status and body, in turn, the last
    one for ever, each with the `headers`."""

    def __init__(self) -> None:
        self.taken: list[Taken] = []
        self.answers: list[tuple[int, bytes]] = [(200, b"ok")]
        self.headers: dict[str, str] = {}
        self.url = ""
        self.host = ""


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A Receiver on a free port of 127.0.0.1."""
    kept = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            kept.taken.append(Taken(self.path, headers, body))
            status, answer = kept.answers.pop(0) if len(kept.answers) > 1 else kept.answers[0]
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            for name, value in kept.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_args: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with answering(server):
        kept.host = f"127.0.0.1:{server.server_port}"
        kept.url = f"http://{kept.host}"
        yield kept


@contextmanager
def callable_receiver(settings: Any) -> Iterator[Receiver]:
    """A Receiver that channels may call."""
    with receiver() as server:
        settings.ALERT_HOSTS = (server.host,)
        settings.JOB_HTTP_NETWORKS = ("127.0.0.1",)
        yield server


class Mailbox:
    """A server of SMTP: the mails it took, and the answer to each recipient."""

    def __init__(self) -> None:
        self.mails: list[str] = []
        self.to_recipient = "250 ok"
        # What is said to some of them alone.
        self.to_one: dict[str, str] = {}
        self.port = 0


def use_mail_server(settings: Any, port: int) -> None:
    """Have the platform send mail by a server at this port of 127.0.0.1."""
    settings.MAIL_HOST = "127.0.0.1"
    for name, value in mail_settings({"host": "127.0.0.1", "port": port}).items():
        setattr(settings, name, value)


@contextmanager
def mailbox() -> Iterator[Mailbox]:
    """A Mailbox on a free port of 127.0.0.1."""
    kept = Mailbox()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 test")
            while line := self.rfile.readline():
                word = line.decode().strip().upper()
                if word.startswith("QUIT"):
                    self._say("221 bye")
                    return
                if word.startswith("RCPT"):
                    name = line.decode().partition("<")[2].partition(">")[0]
                    self._say(kept.to_one.get(name, kept.to_recipient))
                elif word == "DATA":
                    self._say("354 go on")
                    kept.mails.append(self._text())
                    self._say("250 taken")
                else:
                    self._say("250 ok")

        def _text(self) -> str:
            lines = []
            while (line := self.rfile.readline().decode()) not in ("", ".\r\n"):
                lines.append(line)
            return "".join(lines)

        def _say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    with answering(server):
        kept.port = server.server_address[1]
        yield kept
