"""A client of the task platform for other machines: copy this one file and import `Client`.

Python 3.9 or later, standard library only; one file on purpose.

    client = Client("https://tasks.example.com", "<client-id>.<secret>")
    client.run("uid_alice", lambda dispatch: {"photos": take_photos(dispatch.params)})

    submitted = client.submit("mail", {"to": "alice@example.com"}, key="order-7", unique=True)
    client.job(submitted.id).status

Calls are repeated after 429, 5xx, timeouts and lost connections. This is safe because the server
answers a repeat like the first call: a pull with the dispatch that is still open, a callback or
release with its first answer, a unique submission with the open job. A submission that is not
unique is repeated only if the server certainly has not received it.
"""

from __future__ import annotations

import email.utils
import http.client
import json
import logging
import random
import re
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta, timezone
from typing import Any, Literal, TypeVar, final

__all__ = [
    "ApiError",
    "Client",
    "Dispatch",
    "Ending",
    "Job",
    "Nothing",
    "PlatformError",
    "Release",
    "Submitted",
    "Unavailable",
    "UnexpectedAnswer",
]

logger = logging.getLogger("taskplatform.sdk")

T = TypeVar("T")

_API = "/api/v1"
# Limits of the server. It would cut the connection while a larger body is sent.
_MAX_BODY_BYTES = 256 * 1024
_MAX_BATCH_BYTES = 8 * 1024 * 1024
_MAX_BATCH = 1000
_MAX_ANSWER_BYTES = 8 * 1024 * 1024
_MAX_MESSAGE = 500
# Pauses in seconds: between repeats, and between pulls while nothing is due.
_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 10.0
_MIN_WAIT = 0.1
_DEFAULT_WAIT = 5.0
# A longer Retry-After is an error of a proxy.
_MAX_WAIT = 86_400.0
# Codes for a dispatch that has ended in another way or is unknown to the server.
_TOO_LATE = frozenset({"closed", "not_found"})
# Not seeded: devices started from one image must not retry at the same moments.
_random = random.SystemRandom()


class PlatformError(Exception):
    """Base of every error of this module. No message contains the key."""


class ApiError(PlatformError):
    """The server refused the call and would refuse a repeat.

    `status` is the HTTP status. `code` is stable (`invalid`, `not_found`, `closed`, `conflict` …;
    "" when a proxy refused). `errors` are `{"field", "code", "message"}`. `request_id` is in the
    server's log.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        errors: tuple[Mapping[str, str], ...] = (),
        request_id: str = "",
    ) -> None:
        traits = [str(status), code, f"request {request_id}" if request_id else ""]
        super().__init__(f"{detail} ({', '.join(filter(None, traits))})")
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = errors
        self.request_id = request_id


class Unavailable(PlatformError):
    """The server did not answer in time; `__cause__` is the last failure.

    `retry_after`: seconds to wait before another try.
    """

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class UnexpectedAnswer(PlatformError):
    """Something else than the task platform answered: the address or a proxy is wrong."""


class Release(Exception):
    """Raised by a handler of `Client.run` to give the dispatch back unfinished, with a reason."""


class _Temporary(Exception):
    """An answer after which the call is repeated: 429, 5xx, or an incomplete body."""

    def __init__(self, message: str, retry_after: float = 0.0, *, undone: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        # Whether the server certainly has not executed the call.
        self.undone = undone


@final
@dataclass(frozen=True)
class Dispatch:
    """A task that was handed out, with its deadline.

    `number` goes into every further call. `redo` counts repeated pulls.
    `source` is `once` or `rotate`, `task` the id of the task, `template` `{"name", "version"}`
    or None. Times are aware and in UTC.
    """

    number: str
    redo: int
    source: str
    task: int
    occurrence_at: datetime
    title: str
    params: Mapping[str, Any]
    template: Mapping[str, Any] | None
    dispatched_at: datetime
    deadline_at: datetime


@final
@dataclass(frozen=True)
class Nothing:
    """No task is due now; false, so that `if dispatch:` reads well. `retry_after`: seconds."""

    retry_after: float

    def __bool__(self) -> Literal[False]:
        return False


@final
@dataclass(frozen=True)
class Ending:
    """How a dispatch ended: `state` is `succeeded`, `failed` or `released`.

    `finished_at` is None for a release. `next` is set by `callback(next=True)` only.
    """

    number: str
    state: str
    finished_at: datetime | None = None
    next: Dispatch | Nothing | None = None


@final
@dataclass(frozen=True)
class Submitted:
    """A job that was submitted, or with `created` False the open job of the same type and key."""

    id: str
    created: bool
    status: str


@final
@dataclass(frozen=True)
class Job:
    """One job as it is now.

    `status`: scheduled, ready, running, succeeded, failed or cancelled. `attempts` counts the
    current stage, `holds` all stages. `run_at` is the earliest time of the next attempt.
    """

    id: str
    type: str
    key: str
    user_id: str
    status: str
    stage: str
    priority: int
    run_at: datetime
    attempts: int
    max_attempts: int
    holds: int
    progress: int | None
    cancel_requested: bool
    worker: str
    host: str
    held_at: datetime | None
    lease_until: datetime | None
    memo: str
    result: Any
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    trace_id: str
    version: int
    context: Mapping[str, Any]
    checkpoint: Any

    @property
    def is_final(self) -> bool:
        """Whether it has ended. An operator can still retry it."""
        return self.status in ("succeeded", "failed", "cancelled")


@dataclass(frozen=True)
class _Answer:
    """A 2xx answer. `body` is None for 204, `wait` is Retry-After in seconds."""

    body: Any
    wait: float


@dataclass(frozen=True)
class _Raw:
    """An HTTP answer before its status is checked."""

    status: int
    headers: http.client.HTTPMessage
    content: bytes

    @property
    def content_type(self) -> str:
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    @property
    def is_json(self) -> bool:
        return self.content_type in ("application/json", "application/problem+json")

    @property
    def problem(self) -> Mapping[str, Any]:
        """The problem document of an error; empty without one."""
        try:
            body = json.loads(self.content) if self.is_json else None
        except ValueError:
            body = None
        return body if isinstance(body, dict) else {}

    @property
    def reason(self) -> str:
        """The detail of the error, else the phrase of its status."""
        detail = self.problem.get("detail") or http.client.responses.get(self.status, "")
        return str(detail) or f"HTTP status {self.status}"

    @property
    def retry_after(self) -> float | None:
        """Retry-After in seconds, sent as a number or a date; None without."""
        text = self.headers.get("Retry-After", "").strip()
        if re.fullmatch(r"[0-9]{1,18}", text):
            return min(float(text), _MAX_WAIT)
        try:
            until = email.utils.parsedate_to_datetime(text)
            # The clock of this device may be wrong, so the Date of the answer counts.
            since = email.utils.parsedate_to_datetime(self.headers.get("Date", ""))
            return min(max((until - since).total_seconds(), 0.0), _MAX_WAIT)
        except (TypeError, ValueError):
            return None


class Client:
    """Calls one server with one API key over one kept connection.

    `base_url`: scheme, host and port, for example `https://tasks.example.com`.
    `timeout`: seconds without data after which a connection counts as lost.
    `give_up_after`: seconds after which a call is no longer repeated.
    `tls`: a context of your own, for example for a private certificate authority.
    Threads can share a client. Their calls run one after the other, so give busy threads one each.
    """

    def __init__(
        self,
        base_url: str,
        key: str,
        *,
        timeout: float = 10.0,
        give_up_after: float = 60.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Raises ValueError for a malformed address or key."""
        address = _checked_address(base_url)
        host = address.hostname or ""
        self.base_url = f"{address.scheme}://{address.netloc}"
        self._path = address.path.rstrip("/").removesuffix(_API) + _API
        self._headers = {
            "Authorization": f"Bearer {_checked_key(key)}",
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": "taskplatform-sdk",
        }
        self._give_up_after = give_up_after
        self._lock = threading.Lock()
        self._connection: http.client.HTTPConnection
        if address.scheme == "https":
            self._connection = http.client.HTTPSConnection(
                host, address.port, timeout=timeout, context=tls or ssl.create_default_context()
            )
        else:
            self._connection = http.client.HTTPConnection(host, address.port, timeout=timeout)

    def __repr__(self) -> str:
        return f"<Client of {self.base_url}>"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the kept connection; a later call opens a new one."""
        with self._lock:
            self._connection.close()

    def pull(self, uid: str) -> Dispatch | Nothing:
        """The open dispatch of `uid`, else a new one, else `Nothing`."""
        return self._pull(uid)

    def callback(
        self,
        uid: str,
        number: str,
        outcome: Literal["succeeded", "failed"],
        result: Mapping[str, Any] | None = None,
        message: str = "",
        next: bool = False,  # noqa: A002 - the name on the wire
    ) -> Ending:
        """Report the outcome of a dispatch; `next=True` also pulls the next one.

        ApiError `closed`: the dispatch has already ended in another way (expired, released,
        cancelled), so this outcome does not count. A repeat of a callback that was received
        returns its first answer instead.
        ApiError `conflict`: another outcome or result was reported first and is kept.
        """
        body: dict[str, Any] = {"uid": uid, "number": number, "outcome": outcome}
        if result is not None:
            body["result"] = result
        if message:
            body["message"] = message
        if next:
            return self._call("/callback/?next=1", body, _ending_and_next)
        return self._call("/callback/", body, _ending)

    def extend(self, uid: str, number: str, seconds: int) -> Dispatch:
        """Move the deadline to `seconds` (1…86400) from now. A later deadline stays."""
        body = {"uid": uid, "number": number, "seconds": seconds}
        return self._call("/dispatch/extend/", body, lambda answer: _dispatch(answer.body))

    def release(self, uid: str, number: str, reason: str = "") -> Ending:
        """Give a dispatch back unfinished. Others can receive it at once."""
        return self._release(uid, number, reason)

    def submit(
        self,
        type: str,  # noqa: A002 - the name on the wire
        context: Mapping[str, Any] | None = None,
        *,
        key: str = "",
        unique: bool = False,
        run_at: datetime | None = None,
        delay: timedelta | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        user_id: str = "",
        stage: str = "",
        route_key: str = "",
        trace_id: str = "",
    ) -> Submitted:
        """Submit a job. The type sets what is left out.

        `unique` (with a `key`): while a job of this type and key is open, its id is returned and
        no other job is made, so a lost answer does no harm. Without `unique`, the job may exist
        after Unavailable.
        """
        body: dict[str, Any] = {
            "type": type,
            "context": {} if context is None else context,
            "key": key,
            "user_id": user_id,
            "stage": stage,
            "route_key": route_key,
            "trace_id": trace_id,
            "priority": priority,
            "max_attempts": max_attempts,
            "run_at": _wire(run_at),
            "delay": _wire(delay),
        }
        body = {name: value for name, value in body.items() if value is not None and value != ""}
        if unique:
            body["unique"] = True
        return self._call("/jobs/", body, lambda answer: _submitted(answer.body), repeatable=unique)

    def submit_many(self, jobs: Sequence[Mapping[str, Any]]) -> list[Submitted]:
        """Submit up to 1,000 jobs, all or none.

        Each is `{"type", "key", "context", "run_at", "delay", "unique", …}` as in the API, `run_at`
        with time zone, `delay` in seconds or as timedelta. Returns the answers in order.
        """
        if len(jobs) > _MAX_BATCH:
            raise ValueError(f"{len(jobs)} jobs are too many; send at most {_MAX_BATCH} at once")
        if not jobs:
            return []
        return self._call(
            "/jobs/",
            {"jobs": [{name: _wire(value) for name, value in job.items()} for job in jobs]},
            lambda answer: [_submitted(each) for each in answer.body["jobs"]],
            max_bytes=_MAX_BATCH_BYTES,
            repeatable=all(job.get("unique") for job in jobs),
        )

    def job(self, id: str) -> Job:  # noqa: A002 - the name on the wire
        """The job as it is now. ApiError `not_found`: unknown, or not visible to this key."""
        path = f"/jobs/{urllib.parse.quote(id, safe='')}/"
        return self._call(path, None, lambda answer: _job(answer.body))

    def run(
        self,
        uid: str,
        handler: Callable[[Dispatch], Mapping[str, Any] | None],
        *,
        stop: threading.Event | None = None,
    ) -> int:
        """Pull, handle and call back until `stop` is set; returns the number of handled dispatches.

        `handler` returns the result (a JSON object) or None. `Release` gives the dispatch
        back; any other exception reports it as failed, with the exception as message.
        After an outage the loop goes on; a result is sent until the server has received it. A
        killed process loses nothing: the next `run` receives the same dispatch.
        Raises ApiError when the server refuses key or uid, UnexpectedAnswer when the address is
        wrong, and Unavailable when `stop` is set and a result could not be delivered.
        """
        stop = stop or threading.Event()
        handled = 0
        offer: Dispatch | Nothing = Nothing(0.0)
        while not stop.is_set():
            if isinstance(offer, Dispatch):
                offer = self._carry_out(uid, offer, handler, stop)
                handled += 1
            else:
                try:
                    offer = self._pull(uid, stop)
                except Unavailable as exc:
                    logger.warning("%s: pull failed: %s", uid, exc)
                    offer = Nothing(exc.retry_after)
            if isinstance(offer, Nothing):
                stop.wait(max(offer.retry_after, _MIN_WAIT))
        if isinstance(offer, Dispatch):
            self._let_go(uid, offer, "the executor stopped before the task began", stop)
        return handled

    def _carry_out(
        self,
        uid: str,
        dispatch: Dispatch,
        handler: Callable[[Dispatch], Mapping[str, Any] | None],
        stop: threading.Event,
    ) -> Dispatch | Nothing:
        """Handle and report one dispatch; returns the next one."""
        try:
            result = handler(dispatch)
            json.dumps(result, allow_nan=False)
        except Release as exc:
            return self._let_go(uid, dispatch, _sendable(str(exc)), stop)
        except Exception as exc:
            logger.warning("%s: dispatch %s failed", uid, dispatch.number, exc_info=True)
            message = _sendable(f"{type(exc).__name__}: {exc}")
            return self._report(uid, dispatch.number, stop, "failed", None, message)
        return self._report(uid, dispatch.number, stop, "succeeded", result, "")

    def _report(
        self,
        uid: str,
        number: str,
        stop: threading.Event,
        outcome: Literal["succeeded", "failed"],
        result: Mapping[str, Any] | None,
        message: str,
    ) -> Dispatch | Nothing:
        """Call back until the server answers; returns the next dispatch."""
        while True:
            try:
                # After a stop the next one would not be handled.
                ending = self.callback(uid, number, outcome, result, message, not stop.is_set())
            except Unavailable as exc:
                if stop.is_set():
                    raise
                logger.warning("%s: outcome of dispatch %s not delivered yet: %s", uid, number, exc)
                stop.wait(exc.retry_after)
            except ApiError as exc:
                if exc.code in _TOO_LATE:
                    logger.warning("%s: outcome of %s does not count: %s", uid, number, exc)
                    return Nothing(0.0)
                if outcome == "failed" or exc.status not in (400, 413):
                    raise
                # A result that the server always refuses must not block this executor forever.
                message = _sendable(f"The result was refused: {exc.detail}")
                outcome, result = "failed", None
            else:
                return Nothing(0.0) if ending.next is None else ending.next

    def _let_go(self, uid: str, dispatch: Dispatch, reason: str, stop: threading.Event) -> Nothing:
        """Release. If this fails, the next pull returns the dispatch, or its deadline ends it."""
        try:
            self._release(uid, dispatch.number, reason, stop)
        except Unavailable as exc:
            logger.warning("%s: dispatch %s not released: %s", uid, dispatch.number, exc)
        except ApiError as exc:
            if exc.code not in _TOO_LATE:
                raise
            logger.warning("%s: dispatch %s has already ended: %s", uid, dispatch.number, exc)
        return Nothing(0.0)

    def _pull(self, uid: str, stop: threading.Event | None = None) -> Dispatch | Nothing:
        return self._call("/dispatch/", {"uid": uid}, _offer, stop)

    def _release(
        self, uid: str, number: str, reason: str, stop: threading.Event | None = None
    ) -> Ending:
        body = {"uid": uid, "number": number}
        if reason:
            body["reason"] = reason
        return self._call("/dispatch/release/", body, _ending, stop)

    def _call(
        self,
        path: str,
        body: Mapping[str, Any] | None,
        read: Callable[[_Answer], T],
        stop: threading.Event | None = None,
        *,
        max_bytes: int = _MAX_BODY_BYTES,
        repeatable: bool = True,
    ) -> T:
        """Call (GET without body) and repeat; `read` converts the answer.

        A call that is not `repeatable` is repeated only if the server certainly has not executed
        it. The pause is Retry-After plus full jitter: a random part of a span that doubles from
        0.25 s to 10 s, so that clients that fail together do not return together.
        """
        payload = None
        if body is not None:
            payload = json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
            if len(payload) > max_bytes:
                raise ApiError(413, "too_large", f"The body has more than {max_bytes} bytes")
        give_up_at = time.monotonic() + self._give_up_after
        stop = stop or threading.Event()
        attempt = 0
        while True:
            attempt += 1
            asked = 0.0
            failure: Exception
            try:
                raw = self._exchange(self._path + path, payload, repeatable)
                return self._read_answer(raw, read)
            except ssl.SSLCertVerificationError as exc:
                raise UnexpectedAnswer(
                    f"The certificate of {self.base_url} is not trusted: {exc.verify_message}; "
                    "check the address, or pass a context with its authority as tls"
                ) from exc
            except _Temporary as exc:
                failure, asked = exc, exc.retry_after
            except (OSError, http.client.HTTPException) as exc:
                failure = exc
            span = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(attempt - 1, 10))
            pause = asked + _random.uniform(0, span)
            logger.debug("%s: try %d: %r; pause of %.2f s", path, attempt, failure, pause)
            is_over = not repeatable and not _is_undone(failure)
            if is_over or time.monotonic() + pause > give_up_at or stop.wait(pause):
                hint = (
                    "The server may have executed the call; check before you repeat it"
                    if is_over
                    else "Check the address and that the server is running"
                )
                raise Unavailable(
                    f"{self.base_url} gave no usable answer (tries: {attempt}); the last failure: "
                    f"{str(failure) or type(failure).__name__}. {hint}",
                    retry_after=pause,
                ) from failure

    def _exchange(self, path: str, payload: bytes | None, repeatable: bool) -> _Raw:
        """Send one request and read its whole answer over the kept connection."""
        with self._lock:
            if not repeatable:
                # If the server closes a kept connection now, it is unknown what it has read.
                self._connection.close()
            kept = self._connection.sock is not None
            try:
                return self._send(path, payload)
            except ConnectionError:
                if not kept:
                    raise
            # Servers close idle connections; only a new connection shows whether it is up.
            return self._send(path, payload)

    def _send(self, path: str, payload: bytes | None) -> _Raw:
        try:
            method = "GET" if payload is None else "POST"
            self._connection.request(method, path, payload, self._headers)
            with self._connection.getresponse() as response:
                content = response.read(_MAX_ANSWER_BYTES)
                if response.length:
                    raise http.client.IncompleteRead(content, response.length)
        except BaseException:
            # The rest of this answer would be read as the next answer.
            self._connection.close()
            raise
        return _Raw(response.status, response.headers, content)

    def _read_answer(self, raw: _Raw, read: Callable[[_Answer], T]) -> T:
        """Convert a 2xx answer with `read`; raise the error of any other."""
        if raw.status == 429 or raw.status == 408 or raw.status >= 500:
            raise _Temporary(
                f"{raw.status} {raw.reason}", raw.retry_after or 0.0, undone=raw.status == 429
            )
        if 300 <= raw.status < 400:
            target = raw.headers.get("Location", "")[:200]
            raise self._unexpected(f"a redirect to {target!r}; give the address behind it")
        if not 200 <= raw.status < 300:
            raise self._refusal(raw)
        if raw.status != 204 and not raw.is_json:
            raise self._unexpected(f"{raw.content_type or 'no content type'}, not JSON")
        try:
            body = None if raw.status == 204 else json.loads(raw.content)
        except ValueError as exc:
            raise _Temporary(f"the answer is incomplete JSON: {exc}") from exc
        try:
            wait = _DEFAULT_WAIT if raw.retry_after is None else raw.retry_after
            return read(_Answer(body, wait))
        except (LookupError, TypeError, ValueError, AttributeError) as exc:
            raise self._unexpected(f"JSON of another shape ({exc!r})") from exc

    def _refusal(self, raw: _Raw) -> PlatformError:
        """The error of a 4xx answer, from the platform or a proxy."""
        problem = raw.problem
        if "code" not in problem and raw.status in (404, 405):
            return self._unexpected(f"{raw.status} without a problem document")
        return ApiError(
            raw.status,
            str(problem.get("code", "")),
            raw.reason,
            errors=tuple(problem.get("errors") or ()),
            request_id=str(problem.get("request_id", "")),
        )

    def _unexpected(self, what: str) -> UnexpectedAnswer:
        return UnexpectedAnswer(
            f"{self.base_url}{self._path} answered with {what}. Is base_url the address of the "
            "task platform, such as https://tasks.example.com?"
        )


def _checked_address(base_url: str) -> urllib.parse.SplitResult:
    try:
        address = urllib.parse.urlsplit(base_url.strip())
        known = address.scheme in ("http", "https") and address.hostname and address.port != 0
    except ValueError as exc:
        raise ValueError(f"base_url {base_url!r} is not an address: {exc}") from exc
    if address.username is not None or address.password is not None:
        raise ValueError("base_url contains a user name or password; pass the key separately")
    if not known or address.query or address.fragment:
        raise ValueError(
            f"base_url {base_url!r} is not an address such as https://tasks.example.com "
            "or http://127.0.0.1:8000"
        )
    return address


def _checked_key(key: str) -> str:
    """The key without surrounding blanks; the error does not show it."""
    key = key.strip()
    if not re.fullmatch(r"[!-~]+\.[!-~]+", key):
        raise ValueError(
            "key is not of the form <client-id>.<secret>; pass the line that "
            "`manage.py apiclient create` printed"
        )
    return key


def _sendable(text: str) -> str:
    """Text that the server accepts: cut, without NUL and lone surrogates."""
    return text[:_MAX_MESSAGE].replace("\0", " ").encode("utf-8", "replace").decode()


def _instant(text: str) -> datetime:
    """An RFC 3339 time with Z; Python 3.9 reads neither the Z nor other than six digits."""
    seconds, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{seconds}.{fraction:0<6.6}+00:00")


def _wire(value: Any) -> Any:
    """A time or duration in the format of the API; other values unchanged."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value.isoformat()} needs a time zone")
        return value.astimezone(timezone.utc).isoformat(timespec="microseconds")  # noqa: UP017
    return round(value.total_seconds()) if isinstance(value, timedelta) else value


def _is_undone(failure: Exception) -> bool:
    """Whether the server certainly has not executed the call."""
    if isinstance(failure, _Temporary):
        return failure.undone
    return isinstance(failure, (ConnectionRefusedError, socket.gaierror))


def _submitted(body: Mapping[str, Any]) -> Submitted:
    return Submitted(body["id"], body["created"], body["status"])


def _job(body: Mapping[str, Any]) -> Job:
    values = {part.name: body[part.name] for part in fields(Job)}
    for name in ("run_at", "held_at", "lease_until", "created_at", "started_at", "finished_at"):
        values[name] = values[name] and _instant(values[name])
    return Job(**values)


def _dispatch(body: Mapping[str, Any]) -> Dispatch:
    values = {part.name: body[part.name] for part in fields(Dispatch)}
    times = {name: _instant(text) for name, text in values.items() if name.endswith("_at")}
    return Dispatch(**{**values, **times})


def _offer(answer: _Answer) -> Dispatch | Nothing:
    return Nothing(answer.wait) if answer.body is None else _dispatch(answer.body)


def _ending(answer: _Answer) -> Ending:
    body = answer.body
    finished_at = body.get("finished_at")
    return Ending(body["number"], body["state"], finished_at and _instant(finished_at))


def _ending_and_next(answer: _Answer) -> Ending:
    following = answer.body["next"]
    offer = Nothing(answer.wait) if following is None else _dispatch(following)
    return replace(_ending(answer), next=offer)
