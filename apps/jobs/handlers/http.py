"""The ready-made handler http_request: calls other services that the deployer allows."""

from __future__ import annotations

import http.client
import io
import ipaddress
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from apps.common import clock
from apps.common.masking import quote
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.texts import begin_of
from apps.jobs.conf import conf
from apps.jobs.handlers.contract import Context, Fail, Retry
from apps.jobs.handlers.registry import handler
from apps.jobs.rules import failures
from apps.jobs.rules.addresses import host_is_listed, is_allowed, network_of

PORTS = {"http": 80, "https": 443}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
SECONDS, MAX_SECONDS = 10, 300
MAX_ANSWER = 65_536
# Bytes of an answer with its headers, interim answers and the lengths of its parts, of which none
# has an end by itself.
MAX_READ = 1_048_576
# The part of the body that is kept of an answer that is no success.
MAX_SHOWN = 4_000
# Temporary statuses: timeout, too early, too many requests, and errors of servers.
_PASSING = (408, 425, 429)
_OURS = ("host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer")
# Headers that name the caller: the platform takes no call with them for one of a program on its
# machine.
_OF_PROXIES = ("via", "forwarded", "x-real-ip")
_VIA = "1.1 taskplatform"
# RFC 9110, 5.1 and 5.5. A server that is lenient would take `Host ` for `Host`.
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7E\x80-\xFF]*")


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a request: the address that was checked, and its host name."""

    scheme: str
    host: str
    port: int
    path: str
    address: str = ""


@handler(
    "http_request",
    title="HTTP request",
    about=_(
        "One request to a host of JOB_HTTP_HOSTS; no redirects, no proxies, time and size bounded."
    ),
    lane="slow",
    lease_seconds=60,
    max_processing_seconds=MAX_SECONDS + 60,
    params_schema={
        "type": "object",
        "properties": {
            "url": {"type": "string", "maxLength": 2000},
            "method": {"enum": list(METHODS)},
            "headers": {"type": "object", "additionalProperties": {"type": "string"}},
            "json": {},
            "text": {"type": "string"},
            "timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_SECONDS},
        },
        "required": ["url"],
        "additionalProperties": False,
    },
)
def http_request(context: Any, ctx: Context) -> Any:
    """No redirects, no proxies. A 2xx is success, 5xx and 429 are retried, everything else is
    final. The number of the job goes along as Idempotency-Key.
    """
    target = resolved(target_of(str(context["url"])))
    method = context.get("method", "GET")
    if method not in METHODS:
        known = ", ".join(METHODS)
        raise Fail(Message(failures.NO_METHOD, method=repr(method), methods=known))
    own = {"Idempotency-Key": str(ctx.job_id), "User-Agent": "taskplatform"}
    body = None
    if "json" in context:
        body = json.dumps(context["json"]).encode()
        own["Content-Type"] = "application/json"
    elif "text" in context:
        body = str(context["text"]).encode()
        own["Content-Type"] = "text/plain; charset=utf-8"
    headers = _check_headers(context.get("headers") or {})
    # The job's own header wins, in any spelling.
    given = {name.lower() for name in headers}
    headers |= {name: value for name, value in own.items() if name.lower() not in given}
    seconds = min(float(context.get("timeout", SECONDS)), MAX_SECONDS)
    status, answer_headers, answer = send(target, method, headers, body, seconds)
    shown_body = answer.decode("utf-8", "replace").replace("\x00", "\ufffd")
    shown = {"status": status, "body": shown_body}
    if 200 <= status < 300:
        return shown
    # The body may hold anything; whoever sees the job reads the text.
    text = Message(failures.ANSWERED, host=target.host, status=status)
    detail = {"body": begin_of(shown_body, MAX_SHOWN)}
    if status >= 500 or status in _PASSING:
        raise Retry(wait_of(answer_headers), text, detail=detail, is_asked=True)
    raise Fail(text, detail=detail)


def wait_of(headers: Mapping[str, str]) -> float | None:
    """The seconds of Retry-After, a number or a date of RFC 9110; None without or for neither."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        # As a float, since any number of digits makes one.
        return float(text)
    try:
        # Both times are by the clock of the other side, if its answer has a date.
        since = _http_date(headers["date"]) if "date" in headers else clock.now()
        return max(0.0, (_http_date(text) - since).total_seconds())
    except (ValueError, OverflowError):
        return None


def _http_date(text: str) -> datetime:
    """A date of HTTP, which is of UTC in each of its three forms."""
    found = parsedate_to_datetime(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def target_of(
    url: str, hosts: Sequence[str] | None = None, *, setting: str = "JOB_HTTP_HOSTS"
) -> Target:
    """The parts of an address of a listed host; Fail says what is wrong with it.

    `hosts` are those of the setting, by default the ones that jobs may call.
    """
    hosts = conf.JOB_HTTP_HOSTS if hosts is None else hosts
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Fail(Message(failures.NO_ADDRESS, url=repr(url), error=str(error))) from error
    if parts.scheme not in PORTS or not parts.hostname:
        raise Fail(Message(failures.NOT_OF_THE_WEB, url=repr(url)))
    if parts.username is not None or parts.password is not None:
        raise Fail(failures.WITH_USER)
    host = parts.hostname.rstrip(".").lower()
    usual = PORTS[parts.scheme]
    if not host_is_listed(host, port or usual, usual, hosts):
        raise Fail(
            Message(
                failures.NOT_ALLOWED,
                host=host,
                port=port or usual,
                setting=setting,
                hosts=", ".join(hosts) or "none",
            )
        )
    path = parts.path or "/"
    if parts.query:
        path += f"?{parts.query}"
    if not path.isascii() or not path.isprintable() or " " in path:
        raise Fail(failures.PATH_NOT_QUOTED)
    return Target(parts.scheme, host, port or usual, path)


def resolved(target: Target) -> Target:
    """The target with its address, resolved once; Fail when any of its addresses is not public
    and in no network of JOB_HTTP_NETWORKS."""
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = Message(failures.NOT_FOUND, host=target.host, error=str(error))
        raise Retry(reason=reason) from error
    networks = [network_of(each) for each in conf.JOB_HTTP_NETWORKS]
    addresses = [str(each[4][0]) for each in found]
    for address in addresses:
        if not is_allowed(ipaddress.ip_address(address), networks):
            raise Fail(Message(failures.NOT_PUBLIC, host=target.host, address=address))
    return Target(target.scheme, target.host, target.port, target.path, addresses[0])


def _check_headers(headers: Any) -> dict[str, str]:
    if not isinstance(headers, dict):
        raise Fail(failures.NO_HEADERS)
    for name, value in headers.items():
        if not _NAME.fullmatch(str(name)):
            raise Fail(Message(failures.NO_HEADER, name=quote(name)))
        if not _VALUE.fullmatch(str(value)):
            # Whoever sees the job reads this, and the value may be a secret.
            raise Fail(Message(failures.NO_VALUE, name=str(name)))
        # Some servers take both signs for the same.
        lower = str(name).lower().replace("_", "-")
        is_ours = lower in _OURS or lower in _OF_PROXIES
        if is_ours or lower.startswith(("proxy-", "x-forwarded-")):
            raise Fail(Message(failures.HEADER_OF_OURS, name=str(name)))
    return {str(name): str(value) for name, value in headers.items()}


def _system_text(error: Exception) -> str:
    """The text of the system or the library for the error."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def send(
    target: Target, method: str, headers: Mapping[str, str], body: bytes | None, seconds: float
) -> tuple[int, Mapping[str, str], bytes]:
    """Status, headers and the first 64 KB of the answer; Retry when none comes in time.

    `Via` says that it is sent for somebody else, who must not have the rights of this machine.
    """
    connection = http.client.HTTPConnection(target.host, target.port)
    connection.response_class = _Response
    # Else it would name the port of https, which some servers do not know themselves by.
    connection.default_port = PORTS[target.scheme]
    began = time.monotonic()
    try:
        with _socket(target, seconds) as stream, cut_off(lambda: stream, began + seconds):
            if isinstance(stream, ssl.SSLSocket):
                stream.do_handshake()
            connection.sock = stream
            connection.request(method, target.path, body, {**headers, "Via": _VIA})
            response, answer = _answer(connection)
            # Cut off, by us or by them, it looks like the end of the answer.
            if time.monotonic() - began >= seconds:
                raise TimeoutError
            if response.length and len(answer) < MAX_ANSWER:
                raise http.client.IncompleteRead(answer, response.length)
            named = {name.lower(): value for name, value in response.getheaders()}
            return response.status, named, answer
    except ssl.SSLCertVerificationError as error:
        said = Message(failures.NOT_TRUSTED, host=target.host, error=str(error))
        raise Fail(said) from error
    except (OSError, http.client.HTTPException) as error:
        late = time.monotonic() - began >= seconds
        if late:
            said = Message(failures.TOO_LATE, host=target.host, seconds=f"{seconds:g}")
        else:
            said = Message(failures.BROKE_OFF, host=target.host, error=_system_text(error))
        raise Retry(reason=said) from error
    except ValueError as error:
        raise Fail(Message(failures.NOT_SENT, error=str(error))) from error


def _answer(connection: http.client.HTTPConnection) -> tuple[http.client.HTTPResponse, bytes]:
    """The answer and the begin of its body; HTTPException when it is none."""
    try:
        response = connection.getresponse()
        return response, response.read(MAX_ANSWER)
    except ValueError as error:
        # Such as a part of a negative length: the request was sent all the same.
        raise http.client.HTTPException(str(error)) from error


class _Response(http.client.HTTPResponse):
    """An answer of which MAX_READ bytes are read at most."""

    def __init__(self, sock: socket.socket, *given: Any, **named: Any) -> None:
        super().__init__(sock, *given, **named)
        self.fp = io.BufferedReader(_Limited(self.fp.detach()))


class _Limited(io.RawIOBase):
    """A stream that ends with OSError behind MAX_READ bytes."""

    def __init__(self, stream: io.RawIOBase) -> None:
        self._stream = stream
        self._left = MAX_READ

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        size = self._stream.readinto(buffer)
        self._left -= size or 0
        if self._left < 0:
            raise OSError(f"more than {MAX_READ} bytes before its end")
        return size

    def close(self) -> None:
        self._stream.close()
        super().close()


@contextmanager
def _socket(target: Target, seconds: float) -> Iterator[socket.socket]:
    with socket.create_connection((target.address, target.port), timeout=seconds) as plain:
        if target.scheme == "http":
            yield plain
            return
        # The name is checked against the certificate, though the address was dialled.
        context = ssl.create_default_context()
        with context.wrap_socket(
            plain, server_hostname=target.host, do_handshake_on_connect=False
        ) as secret:
            yield secret


@contextmanager
def cut_off(stream: Callable[[], socket.socket | None], at: float) -> Iterator[None]:
    """Cut the stream off at an instant: a timeout of sockets begins anew with every byte."""

    def cut() -> None:
        open_one = stream()
        with suppress(OSError):
            if open_one is not None:
                # Past the method of SSLSocket, which unwraps what another thread is reading.
                socket.socket.shutdown(open_one, socket.SHUT_RDWR)

    timer = threading.Timer(max(0.0, at - time.monotonic()), cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
