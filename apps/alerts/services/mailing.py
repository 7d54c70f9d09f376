"""Sending one mail, and what the server says of it."""

from __future__ import annotations

import smtplib
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from socket import socket
from typing import Any

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.core.mail.backends.smtp import EmailBackend
from django.utils.html import format_html

from apps.alerts.channels.contract import FAIL, OK, RETRY, Answer, Message, Verdict
from apps.alerts.rules.faults import is_mail_address, no_mail_address
from apps.common.admin.csv_text import BYTE_ORDER_MARK
from apps.common.messages import Message as Text
from apps.common.messages import Message as _
from apps.jobs.handlers import http
from apps.jobs.rules import failures

# A whole mail: each step of its server may take as long as EMAIL_TIMEOUT, and fifty recipients are
# fifty steps.
SECONDS = 30.0
NO_SERVER = _("There is no server for mail; set EMAIL_URL and start anew.")
_NAME = "default"
# The recipients that the answer to a mail names.
_MAX_NAMED = 5

# What a server says to recipients that it does not take: code and text.
_Refused = Mapping[str, tuple[int, bytes]]


class _Server(EmailBackend):
    """The server of the settings. It may take a mail for some of its recipients: `refused` has the
    others."""

    def __init__(self) -> None:
        # From Django 6.1 on a server has a name and the settings of that; see `mail_settings`.
        of_server = getattr(settings, "MAILERS", {}).get(_NAME, {})
        super().__init__(alias=_NAME if of_server else None, **of_server.get("OPTIONS", {}))
        self.refused: _Refused = {}
        self.opened: smtplib.SMTP | None = None

    @property
    def stream(self) -> socket | None:
        """What it talks through at present: another one as soon as that is encrypted."""
        return getattr(self.opened, "sock", None)

    @cached_property
    def connection_class(self) -> type[smtplib.SMTP]:
        server, usual = self, super().connection_class

        class Connection(usual):  # type: ignore[misc, valid-type]
            def __init__(self, *given: Any, **named: Any) -> None:
                # The first answer may be the one that does not come.
                server.opened = self
                super().__init__(*given, **named)

            def sendmail(self, *given: Any, **named: Any) -> _Refused:
                server.refused = super().sendmail(*given, **named)
                return server.refused

        return Connection


def mailed(recipients: Sequence[str], message: Message) -> Answer:
    """Send the message; returns the code of the answer, if there is one, and the verdict.

    A mail that somebody gets is not sent again: the verdict then says who does not.
    """
    if not settings.MAIL_HOST:
        return None, Verdict(FAIL, NO_SERVER)
    # Those of earlier releases were checked less, and would go to another mailbox.
    if wrong := [each for each in recipients if not is_mail_address(each)]:
        return None, Verdict(FAIL, no_mail_address(wrong[0]))
    server, ends_at = _Server(), time.monotonic() + SECONDS
    try:
        with http.cut_off(lambda: server.stream, ends_at):
            _mail(recipients, message, server).send()
    except smtplib.SMTPRecipientsRefused as error:
        code, text = next(iter(error.recipients.values()))
        return code, _by_code(code, text)
    except smtplib.SMTPResponseException as error:
        return error.smtp_code, _by_code(error.smtp_code, error.smtp_error)
    except (OSError, smtplib.SMTPException) as error:
        if time.monotonic() >= ends_at:
            late = Text(failures.TOO_LATE, host=settings.MAIL_HOST, seconds=f"{SECONDS:g}")
            return None, Verdict(RETRY, late)
        return None, Verdict(RETRY, f"{settings.MAIL_HOST}: {error}")
    said = [f"{name}: {code} {_said(text)}" for name, (code, text) in server.refused.items()]
    return 250, Verdict(OK, " · ".join(said[:_MAX_NAMED]))


def _mail(recipients: Sequence[str], message: Message, server: _Server) -> EmailMultiAlternatives:
    longer = message.mail
    body = f"{message.text}\n\n{message.url}\n" if longer is None else longer.text
    mail = EmailMultiAlternatives(message.title, body, to=[*recipients], connection=server)
    html = format_html(
        '<p>{}</p><p><a href="{}">{}</a></p>', message.text, message.url, message.open
    )
    mail.attach_alternative(html if longer is None else longer.html, "text/html")
    if longer is not None:
        mail.attach(longer.file_name, BYTE_ORDER_MARK + longer.file, "text/csv")
    return mail


def _by_code(code: int, text: bytes | str) -> Verdict:
    """The verdict on a refused mail; servers answer 4xx if another try may succeed."""
    return Verdict(RETRY if 400 <= code < 500 else FAIL, _said(text))


def _said(text: bytes | str) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text
