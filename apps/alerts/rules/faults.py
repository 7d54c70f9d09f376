"""The mistakes in a rule or a channel; all of them are reported at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from apps.alerts.channels.kinds import HTTP, MAIL
from apps.common.errors import FieldError, PlatformError
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.zones import parse_zone
from apps.reports.rules.limits import Limit

MAX_FOR = 86_400
MAX_REPEAT = 10_080
MAX_RECIPIENTS = 50
MAX_DOMAIN = 253
_MOST = {"url": 1_000, "secret": 200}
# RFC 5321 without quotes: few servers take others, and letters beyond ASCII before the @ would be
# sent as the name of another mailbox. The domain may have them.
_MAIL_ADDRESS = re.compile(
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@([\w-]+(?:\.[\w-]+)*|\[[0-9A-Fa-f:.]+\])"
)


def _wrong(field: str, message: str) -> FieldError:
    return FieldError(field, "invalid", message)


def rule_faults(given: Mapping[str, Any], limits: Mapping[str, Limit]) -> Iterator[FieldError]:
    """The mistakes in the values of a rule, by field. `limits` are those of each kind."""
    if not str(given["name"]).strip():
        yield _wrong("name", _("Give the rule a name, which people read in the message."))
    limit = limits.get(given["kind"])
    if limit is None:
        yield _wrong(
            "kind", _("There is no such kind; choose one of {all}.", all=", ".join(limits))
        )
        return
    threshold = given["threshold"]
    if threshold is not None:
        if limit.threshold is None:
            yield _wrong("threshold", _("This kind compares nothing; leave the threshold empty."))
        elif not 0 < threshold <= limit.highest:
            yield _wrong(
                "threshold",
                _(
                    "{value} does not do; write a number above 0, up to {max}.",
                    value=threshold,
                    max=limit.highest,
                ),
            )
    yield from _within("for_seconds", given["for_seconds"], 0, MAX_FOR)
    yield from _within("repeat_minutes", given["repeat_minutes"], 1, MAX_REPEAT)
    yield from _quiet_faults(given)


def _within(field: str, value: int | None, lowest: int, highest: int) -> Iterator[FieldError]:
    if value is not None and not lowest <= value <= highest:
        yield _wrong(
            field,
            _(
                "{value} does not do; write a whole number from {min} to {max}.",
                value=value,
                min=lowest,
                max=highest,
            ),
        )


def _quiet_faults(given: Mapping[str, Any]) -> Iterator[FieldError]:
    if (given["quiet_from"] is None) != (given["quiet_to"] is None):
        missing = "quiet_to" if given["quiet_to"] is None else "quiet_from"
        yield _wrong(missing, _("Quiet hours have a beginning and an end; write both or none."))
    if given["quiet_zone"]:
        try:
            parse_zone(given["quiet_zone"], field="quiet_zone")
        except PlatformError as error:
            yield from error.errors
    days = str(given["quiet_days"])
    if not days or set(days) - set("1234567"):
        yield _wrong(
            "quiet_days", _("Days are digits from 1, Monday, to 7, Sunday; 12345 is the week.")
        )


def channel_faults(given: Mapping[str, Any], *, has_mail: bool) -> Iterator[FieldError]:
    """The mistakes in the values of a channel, by field. No message repeats an address or secret.

    `has_mail`: whether there is a server for mail.
    """
    if not str(given["name"]).strip():
        yield _wrong("name", _("Give the channel a name."))
    for field, most in _MOST.items():
        if len(given[field]) > most:
            text = _("It must be text of at most {limit} characters.", limit=most)
            yield _wrong(field, text)
    if given["kind"] == MAIL:
        yield from _mail_faults(given["recipients"], has_mail=has_mail)
    elif given["kind"] not in HTTP:
        kinds = ", ".join([*HTTP, MAIL])
        yield _wrong("kind", _("There is no such kind; choose one of {all}.", all=kinds))
    else:
        yield from _http_faults(given)


def _http_faults(given: Mapping[str, Any]) -> Iterator[FieldError]:
    url = given["url"]
    if not url:
        yield _wrong("url", _("Write the address to which the messages go."))
    elif not _is_address(url):
        yield _wrong(
            "url",
            _("This is no address of the web; write https://host/path, without user or blanks."),
        )
    if given["secret"] and not HTTP[given["kind"]].signs:
        yield _wrong("secret", _("This kind signs nothing; its address holds its key."))
    if given["recipients"]:
        yield _wrong("recipients", _("Only mail has recipients; leave them empty."))


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading it checks it
    except ValueError:
        return False
    is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
    return is_web and parts.username is None and url.isascii() and not any(s <= " " for s in url)


def _mail_faults(recipients: Sequence[str], *, has_mail: bool) -> Iterator[FieldError]:
    if not has_mail:
        yield _wrong("kind", _("There is no server for mail; set EMAIL_URL and start anew."))
    if not recipients:
        yield _wrong("recipients", _("Write at least one mail address."))
    if len(recipients) > MAX_RECIPIENTS:
        yield _wrong(
            "recipients",
            _("At most {limit} addresses; use a list of your mail server.", limit=MAX_RECIPIENTS),
        )
    for each in recipients:
        if not is_mail_address(each):
            yield _wrong("recipients", no_mail_address(each))


def is_mail_address(text: str) -> bool:
    """Whether a mail can be sent there: `ann@example.com`, and nothing around it."""
    found = _MAIL_ADDRESS.fullmatch(text)
    try:
        return found is not None and len(found[1].encode("idna")) <= MAX_DOMAIN
    except UnicodeError:
        return False


def no_mail_address(text: str) -> Message:
    """The fault of an address that is none."""
    return _("{this} is no mail address.", this=f"{text!r:.80}")
