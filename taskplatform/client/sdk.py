# SPDX-License-Identifier: MIT
# Copyright (c) 2026 The task platform authors
"""A client of the task platform for other machines: copy this one file and import from it.

Python 3.9 or later, standard library only; one file on purpose.

    client = Client("https://tasks.example.com", "<client-id>.<secret>")
    client.run("uid_alice", lambda dispatch: {"photos": take_photos(dispatch.params)})

    submitted = client.submit("mail", {"to": "alice@example.com"}, key="order-7", unique=True)
    client.job(submitted.id).status

    worker = Worker("https://tasks.example.com", "<client-id>.<secret>", name="pi-1")

    @worker.handler("mail")
    def mail(job):
        return {"message": send(job.context)}

    worker.run()

Calls are repeated after 429, 5xx, timeouts and lost connections. This is safe because the server
answers a repeat like the first call: a pull with the dispatch that is still open, a callback or
release with its first answer, and a submission, too, whatever has become of its jobs meanwhile.
"""

from __future__ import annotations

import email.utils
import http.client
import json
import logging
import math
import os
import random
import re
import secrets
import signal
import socket
import ssl
import sys
import threading
import time
import traceback
import urllib.parse
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta, timezone
from typing import Any, Generic, Literal, TypeVar, cast, final

__all__ = [
    "ApiError",
    "Assigned",
    "Bucket",
    "Cancelled",
    "Cells",
    "Checked",
    "Client",
    "Dispatch",
    "Done",
    "Ending",
    "Fail",
    "FakeClient",
    "HeldJob",
    "HookFailed",
    "Job",
    "Later",
    "LeaseLost",
    "NextStage",
    "Nothing",
    "PlatformError",
    "Pool",
    "Release",
    "Reported",
    "Retry",
    "Submission",
    "Submitted",
    "Unavailable",
    "UnexpectedAnswer",
    "Worker",
]

logger = logging.getLogger("taskplatform.sdk")

T = TypeVar("T")

_API = "/api/v1"
# Limits of the server. It would cut the connection while a larger body is sent.
_MAX_BODY_BYTES = 256 * 1024
_MAX_BATCH_BYTES = 8 * 1024 * 1024
_MAX_BATCH = 1000
_MAX_ANSWER_BYTES = 16 * 1024 * 1024
_MAX_MESSAGE = 500
_MAX_ERROR = 15_000
_MAX_SUMMARY = 2_000
_MAX_LOG = 64 * 1024
_MAX_LINE = 8_000
# Pauses in seconds: between repeats, and between pulls while nothing is due.
_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 10.0
_MIN_WAIT = 0.1
_DEFAULT_WAIT = 5.0
# A server of 0.3.0 knows a repeat of a submission for an hour, later ones do for a day.
_MAX_REPEATS = 3500.0
# A longer Retry-After is an error of a proxy.
_MAX_WAIT = 86_400.0
# A worker, in seconds: how old an outcome gets, for how long it holds jobs in advance, how long a
# job waits for a thread, and how old a checkpoint and a line of a log get.
_OUTCOME_AGE = 0.05
_AHEAD = 0.5
_UNSTARTED = 1.5
_CHECKPOINT_AGE = 1.0
_LINE_AGE = 2.0
# The share of a lease after which nothing starts any more.
_LEASE_SHARE = 0.8
_REPORT_BYTES = 4 * 1024 * 1024
_MAX_HELD = 10_000
# Those of the server: a route is in the same one everywhere and for ever.
_SHARDS = 1024
# Pause after a refusal of key or types, which only a person can change.
_REFUSED_PAUSE = (10.0, 60.0)
# Between two warnings that the server does not answer.
_WARNING_PAUSE = 60.0
# How long a worker that stops tries to deliver what is done.
_DELIVERY = 5.0
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

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


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
class Submission:
    """A job to be submitted. The type sets what is left out.

    `run_at`, with time zone, or `delay`, in whole seconds or as timedelta: not before.
    `unique` (with a `key`): while a job of this type and key is open, and for `unique_for` seconds
    after its end, no other one is made. `on_twin` says what becomes of a waiting one: "return",
    "replace" (its context, priority and time) or "later" (only its time, if this one is later).
    """

    type: str
    context: Mapping[str, Any] | None = None
    key: str = ""
    unique: bool = False
    unique_for: int | timedelta | None = None
    on_twin: str = ""
    run_at: datetime | None = None
    delay: int | timedelta | None = None
    priority: int | None = None
    max_attempts: int | None = None
    user_id: str = ""
    stage: str = ""
    route_key: str = ""
    trace_id: str = ""

    def _body(self) -> dict[str, Any]:
        said = {part.name: _wire(getattr(self, part.name)) for part in fields(self)}
        said["context"] = {} if self.context is None else self.context
        return {
            name: value
            for name, value in said.items()
            if value is not None and value is not False and value != ""
        }


@final
@dataclass(frozen=True)
class Submitted:
    """A job that was submitted, or with `created` False the one that has its type and key and what
    was done to it: `twin` is "returned", "replaced" or "moved". `host` of a job for one alone."""

    id: str
    created: bool
    status: str
    twin: str = ""
    host: str = ""


@final
@dataclass(frozen=True)
class Job:
    """One job as it is now.

    `status`: scheduled, blocked (by a limit of its key), ready, running, succeeded, failed or
    cancelled. `attempts` counts the current stage, `holds` all stages. `run_at` is the earliest
    time of the next attempt. `parent` is the job that submitted it with its end.
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
    parent: str | None = None

    @property
    def is_final(self) -> bool:
        """Whether it has ended. An operator can still retry it."""
        return self.status in ("succeeded", "failed", "cancelled")


@dataclass(frozen=True)
class _Answer:
    """A 2xx answer. `body` is None for 204, `wait` is Retry-After in seconds."""

    body: Any
    wait: float
    # The monotonic clock of this machine before the server got the call.
    sent_at: float = 0.0


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
        except (ValueError, RecursionError):
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
        except (TypeError, ValueError, OverflowError):
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
        # When a client that never gives up says again that nobody answers.
        self._warn_at = -math.inf
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
        unique_for: int | timedelta | None = None,
        on_twin: str = "",
        run_at: datetime | None = None,
        delay: int | timedelta | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        user_id: str = "",
        stage: str = "",
        route_key: str = "",
        trace_id: str = "",
    ) -> Submitted:
        """Submit a job. The type sets what is left out.

        `run_at`, with time zone, or `delay`, in whole seconds or as timedelta: not before.
        `unique` (with a `key`): while a job of this type and key is open, its id is returned and
        no other job is made; `unique_for` and `on_twin` as of a `Submission`. A lost answer does no
        harm; after Unavailable the job may exist.
        """
        job = Submission(
            type=type,
            context=context,
            key=key,
            unique=unique,
            unique_for=unique_for,
            on_twin=on_twin,
            run_at=run_at,
            delay=delay,
            priority=priority,
            max_attempts=max_attempts,
            user_id=user_id,
            stage=stage,
            route_key=route_key,
            trace_id=trace_id,
        )
        return self._submit(job._body(), lambda answer: _submitted(answer.body), _MAX_BODY_BYTES)

    def submit_many(
        self, jobs: Sequence[Submission | Mapping[str, Any]], *, request_id: str = ""
    ) -> list[Submitted]:
        """Submit up to 1,000 jobs, all or none.

        Each is a `Submission`, or `{"type", "key", "context", "run_at", "delay", "unique", …}` as
        in the API, `run_at` with time zone, `delay` in seconds or as timedelta. Returns the answers
        in order. Whoever keeps a `request_id` may repeat the same jobs with it for a day, also from
        another process: the repeat gets the first answer.
        """
        if len(jobs) > _MAX_BATCH:
            raise ValueError(f"{len(jobs)} jobs are too many; send at most {_MAX_BATCH} at once")
        if not jobs:
            return []
        return self._submit(
            {"jobs": [*map(_job_body, jobs)]},
            lambda answer: [_submitted(each) for each in answer.body["jobs"]],
            _MAX_BATCH_BYTES,
            request_id,
        )

    def submit_everywhere(
        self,
        type: str,  # noqa: A002 - the name on the wire
        context: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> list[Submitted]:
        """Submit the job once for each host where a worker is alive that serves the type.

        `more` as for a `Submission`. ApiError `conflict` when there is no such host.
        """
        body = {**Submission(type=type, context=context, **more)._body(), "everywhere": True}
        return self._submit(
            body, lambda answer: [*map(_submitted, answer.body["jobs"])], _MAX_BODY_BYTES
        )

    def _submit(
        self,
        body: dict[str, Any],
        read: Callable[[_Answer], T],
        max_bytes: int,
        request_id: str = "",
    ) -> T:
        body["request_id"] = request_id or secrets.token_hex(16)
        return self._call("/jobs/", body, read, max_bytes=max_bytes, at_most=_MAX_REPEATS)

    def job(self, id: str) -> Job:  # noqa: A002 - the name on the wire
        """The job as it is now. ApiError `not_found`: unknown, or not visible to this key.

        TypeError when `id` is no string.
        """
        if not isinstance(id, str):
            raise TypeError(f"id is a string, such as the id of what was submitted, not {id!r}")
        path = f"/jobs/{urllib.parse.quote(id, safe='')}/"
        return self._call(path, None, lambda answer: _job(answer.body))

    def start_flow(
        self, flow: str, params: Mapping[str, Any] | None = None, *, key: str = ""
    ) -> Submitted:
        """Start a run of a saved flow; with a `key`, the open run of this flow and key if there is
        one. A lost answer does no harm; after Unavailable the run may exist.
        """
        body: dict[str, Any] = {"flow": flow, "params": dict(params or {}), "key": key}
        body["request_id"] = secrets.token_hex(16)
        return self._call(
            "/flow-runs/", body, lambda answer: _submitted(answer.body), at_most=_MAX_REPEATS
        )

    def flow_run(self, id: str) -> dict[str, Any]:  # noqa: A002 - the name on the wire
        """The run with its steps, as the API shows it. ApiError `not_found` as of `job`."""
        path = f"/flow-runs/{urllib.parse.quote(id, safe='')}/"
        return self._call(path, None, lambda answer: dict(answer.body))

    def flow_results(self, handle: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The jobs behind a `$results` handle in their order: `id`, `status`, `result`."""
        run, step = (urllib.parse.quote(str(handle[name]), safe="") for name in ("run", "step"))
        path, after = f"/flow-runs/{run}/steps/{step}/results/", ""
        while True:
            query = f"?after={after}" if after else ""
            page = self._call(path + query, None, lambda answer: dict(answer.body))
            yield from page["results"]
            after = page["after"]
            if not after:
                return

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
            _json({"result": result})
        except Release as exc:
            return self._let_go(uid, dispatch, _sendable(str(exc)), stop)
        except Exception as exc:  # noqa: BLE001 - reported, and logged without what is too long
            logger.warning("%s: dispatch %s failed: %s", uid, dispatch.number, _error_text(exc))
            message = _sendable(f"{type(exc).__name__}: {_words(exc)}")
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
        body: Mapping[str, Any] | bytes | None,
        read: Callable[[_Answer], T],
        stop: threading.Event | None = None,
        *,
        max_bytes: int = _MAX_BODY_BYTES,
        at_most: float = math.inf,
        method: str = "",
    ) -> T:
        """Call and repeat for `at_most` seconds; `read` converts the answer. Without a `method` it
        is a GET without body, else a POST.

        The pause is Retry-After plus full jitter: a random part of a span that doubles from
        0.25 s to 10 s, so that clients that fail together do not return together.
        """
        payload = body if body is None or isinstance(body, bytes) else _json(body)
        if payload is not None and len(payload) > max_bytes:
            raise ApiError(413, "too_large", f"The body has more than {max_bytes} bytes")
        give_up_at = time.monotonic() + min(self._give_up_after, at_most)
        stop = stop or threading.Event()
        attempt = 0
        while True:
            attempt += 1
            asked = 0.0
            failure: Exception
            try:
                sent_at = time.monotonic()
                raw = self._exchange(self._path + path, payload, method)
                return self._read_answer(raw, read, sent_at)
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
            words = (
                f"{self.base_url} gave no usable answer (tries: {attempt}); the last failure: "
                f"{str(failure) or type(failure).__name__}. "
                "Check the address and that the server is running"
            )
            if give_up_at == math.inf and time.monotonic() >= self._warn_at:
                # Nobody would hear of it otherwise.
                logger.warning("%s", words)
                self._warn_at = time.monotonic() + _WARNING_PAUSE
            if time.monotonic() + pause > give_up_at or stop.wait(pause):
                raise Unavailable(words, retry_after=pause) from failure

    def _exchange(self, path: str, payload: bytes | None, method: str = "") -> _Raw:
        """Send one request and read its whole answer over the kept connection."""
        with self._lock:
            kept = self._connection.sock is not None
            try:
                return self._send(path, payload, method)
            except ConnectionError:
                if not kept:
                    raise
            # Servers close idle connections; only a new connection shows whether it is up.
            return self._send(path, payload, method)

    def _send(self, path: str, payload: bytes | None, method: str) -> _Raw:
        try:
            method = method or ("GET" if payload is None else "POST")
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

    def _read_answer(self, raw: _Raw, read: Callable[[_Answer], T], sent_at: float) -> T:
        """Convert a 2xx answer with `read`; raise the error of any other."""
        if raw.status == 429 or raw.status == 408 or raw.status >= 500:
            raise _Temporary(f"{raw.status} {raw.reason}", raw.retry_after or 0.0)
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
            return read(_Answer(body, wait, sent_at))
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


@final
@dataclass(frozen=True)
class Assigned:
    """An item of a pool that this worker has; the lowest score comes first."""

    key: str
    id: str
    lease_token: str
    score: float
    context: Mapping[str, Any]
    lease_until: datetime


@final
@dataclass(frozen=True)
class Bucket:
    """All items that a worker has of a pool. `retry_after`: seconds until it may ask for more."""

    items: tuple[Assigned, ...]
    retry_after: float


@final
@dataclass(frozen=True)
class Checked:
    """Whether the server and the worker name the same items.

    `missing` are held but were not named, `extra` were named but are not held.
    """

    match: bool
    missing: tuple[str, ...]
    extra: tuple[str, ...]


@final
@dataclass(frozen=True)
class Reported:
    """The keys that a report took, and those that it refused, with the code of the reason."""

    accepted: tuple[str, ...]
    refused: tuple[str, ...]
    reasons: Mapping[str, str]


class Pool:
    """The bucket that one worker has of a pool. Calls can be repeated and renew its leases.

    TypeError when `keys` is one string.
    """

    def __init__(self, client: Client, type: str, worker: str) -> None:  # noqa: A002
        self._client = client
        self._path = f"/pools/{urllib.parse.quote(type, safe='')}"
        self._worker = worker

    def assign(self, limit: int = 20) -> Bucket:
        """Fill the bucket up to `limit` items, or give back those with the highest scores."""
        return self._call("assign", _bucket, limit=limit)

    def check(self, keys: Iterable[str]) -> Checked:
        """Compare the keys that the worker knows of with those that it holds."""
        return self._call("check", _checked, keys=_keys(keys))

    def done(self, keys: Iterable[str]) -> Reported:
        """These have succeeded."""
        return self._call("done", _reported("done"), keys=_keys(keys))

    def fail(self, keys: Iterable[str], error: str = "", retry: str = "policy") -> Reported:
        """These have failed; `retry` is `policy` or `never`."""
        return self._call("fail", _reported("failed"), keys=_keys(keys), error=error, retry=retry)

    def release(self, keys: Iterable[str]) -> Reported:
        """Give these back unfinished, with their scores."""
        return self._call("release", _reported("released"), keys=_keys(keys))

    def _call(self, verb: str, read: Callable[[_Answer], T], **more: Any) -> T:
        body = {"worker": self._worker, **more}
        return self._client._call(f"{self._path}/{verb}/", body, read, max_bytes=_MAX_BATCH_BYTES)


class Cells(Generic[T]):
    """Which of several platforms, each with a database of its own, has the jobs of a route.

    `shards` says which of the 1,024 shards of routes each cell has, for example
    `Cells({Client(url_0, key_0): range(512), Client(url_1, key_1): range(512, 1024)})`. A cell is
    whatever stands for a platform: its client or its address. A new cell changes only the shards
    that you give it; the open jobs of these stay where they are.
    """

    def __init__(self, shards: Mapping[T, Iterable[int]]) -> None:
        """Raises ValueError unless each shard from 0 to 1023 belongs to exactly one cell."""
        table: dict[int, T] = {}
        for cell, numbers in shards.items():
            for number in numbers:
                if number in table or not 0 <= number < _SHARDS:
                    fault = "belongs to two cells" if number in table else "does not exist"
                    raise ValueError(f"shard {number} {fault}; there are 0 to {_SHARDS - 1}")
                table[number] = cell
        missing = [number for number in range(_SHARDS) if number not in table]
        if missing:
            raise ValueError(f"{len(missing)} shards have no cell; the first is {missing[0]}")
        self._table = table

    def of(self, route_key: str) -> T:
        """The cell of a route: the same for equal keys. ValueError for an empty key."""
        if not route_key:
            raise ValueError("route_key is empty; give what all jobs of the route have in common")
        return self._table[zlib.crc32(route_key.encode()) % _SHARDS]


class Fail(Exception):
    """Raised by a handler: the job has failed and is not tried again."""


class Retry(Exception):
    """Raised by a handler: try again after this time (seconds), else by the policy of the type."""

    def __init__(self, after: float | timedelta | None = None, reason: str = "") -> None:
        super().__init__(reason or "the handler asked for another try")
        self.after = after.total_seconds() if isinstance(after, timedelta) else after


class Later(Exception):
    """Raised by a handler: go on at this time, or after it, in seconds or as timedelta; the attempt
    does not count.

    A time counts by the clock of the server, a duration from when the server hears of it. If the
    clock of this machine may be wrong, give a duration. None at all, 0, is for a worker that stops;
    otherwise it changes nothing, and the attempt fails when that happens 100 times in a row.
    """

    def __init__(self, run_at: datetime | timedelta | float) -> None:
        if isinstance(run_at, (int, float)):
            run_at = timedelta(seconds=run_at)
        super().__init__(f"the handler goes on later: {run_at}")
        self.run_at = run_at


class Cancelled(Exception):
    """Raised by `checkpoint` and `progress` after somebody has cancelled the job."""


class LeaseLost(Exception):
    """Raised by `checkpoint` and `progress` when the job is no longer this worker's."""


class HookFailed(Exception):
    """How an attempt ends whose hook has raised, or has not yielded once; its cause is what the
    hook raised."""


@final
@dataclass(frozen=True)
class Done:
    """Returned by a handler in place of the bare result: the jobs in `then`, 100 at most, are
    submitted with the end of this one, or neither happens. The key needs the scope submit."""

    result: Any = None
    then: Sequence[Submission | Mapping[str, Any]] = ()


@final
@dataclass(frozen=True)
class NextStage:
    """Returned by a handler when a stage is done: go on with another one."""

    stage: str
    context: Mapping[str, Any] | None = None
    priority: int | None = None
    run_at: datetime | timedelta | None = None


@final
class HeldJob:
    """A job that a worker holds. It runs at least once: `id` is the key of what must happen once.
    An attempt that is not counted is followed by one of the same number.

    `saved` is the last checkpoint, of an earlier attempt or this one; None at first.
    `cancelled`: somebody cancelled it. `lost`: another may have it now, what ends here does not
    count. `stopping`: the worker is to end soon; save a checkpoint and raise
    `Later(timedelta(0))`, which uses up no attempt.
    """

    def __init__(self, body: Mapping[str, Any], answer: _Answer, executor: _Executor) -> None:
        self.id: str = body["id"]
        self.type: str = body["type"]
        self.key: str = body["key"]
        self.user_id: str = body["user_id"]
        self.stage: str = body["stage"]
        self.attempt: int = body["attempt"]
        self.max_attempts: int = body["max_attempts"]
        self.context: Mapping[str, Any] = body["context"]
        self.saved: Any = body["checkpoint"]
        self.trace_id: str = body["trace_id"]
        self.cancelled: bool = body["cancel_requested"]
        self.lost = self.stopping = False
        self._token: str = body["lease_token"]
        self._sequence: int = body["sequence"] or 0
        self._executor = executor
        self._came_at = time.monotonic()
        # JSON of the newest checkpoint until the server has it.
        self._unsent = ""
        # The lines of its log that the server does not have, of which the last sign has so many;
        # how many it has, and how many there is no room for.
        self._lines: list[str] = []
        self._signed = self._kept = self._left_out = self._logged = 0
        self._is_silent = False
        self._shown: int | None = None
        self._refusal = ""
        # Counts what the handler reported; the server has that up to `_known`.
        self._reports = self._known = 0
        self._beat_at = math.inf
        self._renew(body["lease_until"], answer)

    def __repr__(self) -> str:
        return f"job {self.id} of type {self.type}"

    def checkpoint(self, data: Any, progress: float | None = None, *, now: bool = False) -> None:
        """Keep any JSON to go on from. It is sent within a second, and with `now` at once.

        Raises Cancelled and LeaseLost; with `now` also Unavailable when nothing is answered during
        the lease, and ValueError when the server cannot keep it.
        """
        encoded = _json(data).decode()
        if len(encoded) > _MAX_BODY_BYTES:
            raise ValueError(f"a checkpoint of {len(encoded)} bytes is too large")
        beats = self._executor.beats
        with beats:
            self.saved, self._unsent = data, encoded
            self._sequence += 1
            self._refusal = ""
            reported = self._report(progress, 0.0 if now else _CHECKPOINT_AGE)
            while now and self._known < reported and not self.lost:
                if not beats.wait(max(self._lease_end - time.monotonic(), 0.0)):
                    raise Unavailable(f"The checkpoint of {self!r} is not kept", retry_after=0.0)
            if now and self._refusal:
                raise ValueError(f"The checkpoint of {self!r} is refused: {self._refusal}")
        self._check()

    def progress(self, percent: float) -> None:
        """Show how far it is, 0 to 100. Raises Cancelled and LeaseLost."""
        with self._executor.beats:
            self._report(percent, _CHECKPOINT_AGE)
        self._check()

    def log(self, text: str) -> None:
        """Add a line to the log of the job, which its page shows while it runs. It is sent within
        two seconds. Of an attempt 64 KB are kept."""
        with self._executor.beats:
            if self._is_silent:
                return
            if self._logged > _MAX_LOG:
                self._left_out += 1
                return
            now = self._server_time + timedelta(seconds=time.monotonic() - self._server_time_at)
            stamp = f"{now.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
            self._lines.append(f"{stamp} {_sendable(str(text), _MAX_LINE)}")
            self._logged += len(self._lines[-1])
            self._beat_within(_LINE_AGE)

    def _drop_log(self) -> None:
        """Send nothing more of its log."""
        self._lines, self._signed, self._left_out, self._is_silent = [], 0, 0, True

    def _check(self) -> None:
        if self.lost:
            raise LeaseLost(f"{self!r} is no longer this worker's")
        if self.cancelled:
            raise Cancelled("cancelled as asked for")

    def _report(self, percent: float | None, within: float) -> int:
        if percent is not None:
            self._shown = int(max(0, min(100, percent)))
        self._reports += 1
        self._beat_within(within)
        return self._reports

    def _beat_within(self, seconds: float) -> None:
        if time.monotonic() + seconds < self._beat_at:
            self._beat_at = time.monotonic() + seconds
            self._executor.beats.notify_all()

    def _renew(self, until: str, answer: _Answer) -> None:
        """Only spans of the server's clock count: that of this machine may be a day off."""
        self._server_time, self._server_time_at = _instant(answer.body["now"]), answer.sent_at
        seconds = (_instant(until) - self._server_time).total_seconds()
        self._lease_end = answer.sent_at + seconds
        self._start_before = answer.sent_at + _LEASE_SHARE * seconds
        self._beat_at = answer.sent_at + min(seconds / 4, self._executor.heartbeat)

    def _sign(self) -> bytes:
        """A sign of life, with what the server does not know yet."""
        named = {"id": self.id, "lease_token": self._token}
        sign: dict[str, Any] = {**named, **self._executor.asks}
        if self._known < self._reports and self._shown is not None:
            sign["progress"] = self._shown
        if self._unsent:
            sign["sequence"] = self._sequence
        if self._lines:
            lines = self._fitting(len(_json(sign)) + len(self._unsent))
            self._signed = len(lines)
            sign = {**sign, "log": lines, "log_at": self._kept}
        return _json(sign, self._unsent)

    def _fitting(self, size: int) -> list[str]:
        """As many lines of the log as go into a body beside so many bytes."""
        fitting: list[str] = []
        room = _MAX_BODY_BYTES - size - 200
        for line in self._lines:
            room -= len(json.dumps(line)) + 1
            if room < 0:
                break
            fitting.append(line)
        return fitting

    def _take_sign(self, reported: int, lease: Mapping[str, Any], answer: _Answer) -> None:
        """What the server said to a sign of life that had all up to `reported`."""
        self.cancelled = self.cancelled or lease["cancel_requested"]
        wished_at = self._beat_at
        self._renew(lease["lease_until"], answer)
        self._beat_at = min(self._beat_at, wished_at)
        del self._lines[: self._signed]
        self._kept += self._signed
        self._signed = 0
        if self._lines:
            self._beat_within(_LINE_AGE)
        if lease.get("code"):
            self._refusal = str(lease.get("message") or lease["code"])
            logger.warning("checkpoint of %r is not kept: %s", self, self._refusal)
        self._known = reported
        if reported == self._reports:
            self._unsent = ""

    def _outcome(self, ended: object) -> dict[str, Any]:
        """The outcome for what the handler returned or raised."""
        if isinstance(ended, NextStage):
            named = {"context": ended.context, "priority": ended.priority, **_when(ended.run_at)}
            outcome: dict[str, Any] = {"outcome": "stage_done", "stage": ended.stage, **named}
        elif isinstance(ended, Later) and self.stopping and _is_at_once(ended.run_at):
            # Put off without any change, it would count as a failure.
            outcome = {"outcome": "released"}
        elif isinstance(ended, Later):
            outcome = {"outcome": "yielded", **_when(ended.run_at)}
        elif isinstance(ended, Cancelled):
            outcome = {"outcome": "cancelled", "memo": _sendable(str(ended))}
        elif isinstance(ended, BaseException):
            kind = type(ended)
            path = f"{kind.__module__}.{kind.__qualname__}"[:200]
            outcome = {"outcome": "failed", "error": _error_text(ended), "exception": path}
            if not isinstance(ended, (Fail, Retry)):
                outcome["summary"] = _error_line(ended)
            if isinstance(ended, Fail):
                outcome["retry"] = "never"
            if isinstance(ended, Retry) and ended.after is not None:
                outcome["retry_after"] = max(ended.after, 0.0)
        elif isinstance(ended, Done):
            outcome = {"outcome": "succeeded", "result": ended.result}
            if ended.then:
                outcome["submit"] = [*map(_job_body, ended.then)]
        else:
            outcome = {"outcome": "succeeded", "result": ended}
        return {name: value for name, value in outcome.items() if value is not None}

    def _encoded(self, outcome: Mapping[str, Any]) -> bytes:
        goes_on = outcome["outcome"] in ("failed", "yielded", "interrupted", "released")
        named = {"id": self.id, "lease_token": self._token, **outcome}
        checkpoint = self._unsent if goes_on else ""
        if self._lines or self._left_out:
            lines = self._fitting(len(_json(named)) + len(checkpoint))
            left_out = self._left_out + len(self._lines) - len(lines)
            named = {**named, "log": lines, "log_at": self._kept, "log_left_out": left_out}
        return _json(named, checkpoint)


@dataclass(frozen=True)
class _Report:
    """An outcome on its way to the server, and since when."""

    job: HeldJob
    outcome: Mapping[str, Any]
    encoded: bytes
    since: float
    # Whether it stands for one that the server refused.
    is_last: bool = False


class _Around:
    """The hooks around one attempt, the first one outermost. `error` is what failed before it."""

    def __init__(self, hooks: Sequence[Callable[..., Any]], job: HeldJob) -> None:
        self.job = job
        self.error: BaseException | None = None
        self._begun: list[tuple[str, Any]] = []
        for hook in hooks:
            name = f"{hook.__module__}.{getattr(hook, '__qualname__', repr(hook))}"
            try:
                run = hook(job)
                next(run)
            except StopIteration:
                self.error = HookFailed(f"The hook {name} has not yielded.")
            except BaseException as error:  # noqa: BLE001 - it fails the attempt
                self.error = _hook_failed(name, error)
            if self.error is not None:
                break
            self._begun.append((name, run))

    def leave(self, ended: Any) -> Any:
        """How the attempt ends when its handler has ended so."""
        for name, run in reversed(self._begun):
            try:
                if isinstance(ended, BaseException):
                    run.throw(ended)
                else:
                    next(run)
            except StopIteration:
                # A hook that keeps an error to itself has seen it; the attempt fails all the same.
                continue
            except BaseException as error:  # noqa: BLE001 - it fails the attempt
                if error is not ended:
                    ended = _hook_failed(name, error)
            else:
                ended = HookFailed(f"The hook {name} yields more than once.")
        return ended


def _hook_failed(name: str, error: BaseException) -> HookFailed:
    failed = HookFailed(f"The hook {name} has failed: {error!r}")
    failed.__cause__ = error
    return failed


class _Executor:
    """The threads that run handlers, the jobs before them and the outcomes after them.

    `lock` guards all of it. A job is in `held` until the server has its outcome.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.lock = threading.RLock()
        self.jobs_came = threading.Condition(self.lock)
        self.news = threading.Condition(self.lock)
        self.beats = threading.Condition(self.lock)
        self.heartbeat = 5.0
        # What holds and signs of life ask for.
        self.asks: dict[str, int] = {}
        # By type: the handler, and how many jobs it gets in a list; 0: one without a list.
        self.handlers: dict[str, tuple[Callable[[Any], Any], int]] = {}
        self.hooks: dict[str, list[Callable[..., object]]] = {}
        self.held: dict[str, HeldJob] = {}
        self.queue: deque[HeldJob] = deque()
        self.outbox: deque[_Report] = deque()
        # By thread: since when it runs which jobs.
        self.runs: dict[int, tuple[float, list[HeldJob]]] = {}
        # Seconds that a job takes, of the last ones; None before the first.
        self.mean: float | None = None
        # How many jobs went back undone, since the worker began to stop.
        self.returned = 0
        self.ended = False

    def add(self, jobs: Sequence[HeldJob]) -> None:
        """Queue what a hold brought."""
        for job in jobs:
            if job.id in self.held:
                self.lose(self.held[job.id])
            self.held[job.id] = job
            self.queue.append(job)
        self.jobs_came.notify(len(jobs))
        self.beats.notify_all()

    def wanted(self) -> int:
        """How many more jobs the threads can do in half a second, and at least one each.

        Threads that are busy for longer do not count, and half of it must be free.
        """
        now = time.monotonic()
        young = [jobs for since, jobs in self.runs.values() if now - since < _AHEAD]
        waiting = len(self.queue) + sum(map(len, young))
        free = self.threads - len(self.runs) + len(young)
        each = 1.0 if self.mean is None else max(_AHEAD / max(self.mean, 1e-6), 1.0)
        target = int(min(free * each, _MAX_BATCH, _MAX_HELD - len(self.held)))
        is_idle = not self.queue and len(self.runs) < self.threads
        return max(target - waiting, 0) if is_idle or waiting * 2 <= target else 0

    def release(self, everything: bool = False) -> None:
        """Give back what has waited for too long, so that others start it."""
        now = time.monotonic()
        for job in list(self.queue):
            if everything or now - job._came_at > _UNSTARTED:
                self.queue.remove(job)
                self.report(job, {"outcome": "released"})

    def report(self, job: HeldJob, outcome: Mapping[str, Any], *, is_last: bool = False) -> None:
        """Keep the outcome until the server has it; that of a lost job does not count."""
        with self.lock:
            if job.lost:
                logger.warning("%r was lost; its outcome %s is dropped", job, outcome["outcome"])
                return
            self.returned += outcome["outcome"] == "released"
            encoded = job._encoded(outcome)
            self.outbox.append(_Report(job, outcome, encoded, time.monotonic(), is_last))
            if not self.queue or len(self.outbox) >= _MAX_BATCH:
                self.news.notify()

    def forget(self, job: HeldJob) -> None:
        if self.held.get(job.id) is job:
            del self.held[job.id]

    def lose(self, job: HeldJob) -> None:
        """Another worker has it now, or may."""
        job.lost = True
        self.forget(job)
        self.queue = deque(each for each in self.queue if each is not job)
        self.outbox = deque(each for each in self.outbox if each.job is not job)
        self.beats.notify_all()

    def abandon(self) -> None:
        """Put back what still runs; what its handler says later does not count."""
        with self.lock:
            for _, jobs in self.runs.values():
                for job in jobs:
                    # Elsewhere only when this process has ended.
                    self.report(job, {"outcome": "interrupted", "delay": _DELIVERY})
                    self.returned += not job.lost
                    job.lost = True
            self.runs.clear()

    def work(self) -> None:
        """What each thread does."""
        while jobs := self._take():
            function, size = self.handlers[jobs[0].type]
            self._hook("before", jobs)
            since = time.monotonic()
            ended = self.ended_of(jobs, function, size)
            took = (time.monotonic() - since) / len(jobs)
            for job, each in zip(jobs, ended):  # noqa: B905 - Python 3.9
                self._finish(job, each)
            with self.lock:
                self.runs.pop(threading.get_ident(), None)
                self.mean = took if self.mean is None else 0.9 * self.mean + 0.1 * took
                if not self.queue:
                    self.news.notify()

    def ended_of(
        self, jobs: Sequence[HeldJob], function: Callable[[Any], Any], size: int
    ) -> list[Any]:
        """What the handler returns or raises for each of the jobs, or a hook around it."""
        if not self.hooks.get("around"):
            return self._called(jobs, function, size)
        around = [_Around(self.hooks["around"], job) for job in jobs]
        begun = [each.job for each in around if each.error is None]
        ended = iter(self._called(begun, function, size) if begun else ())
        return [each.leave(next(ended) if each.error is None else each.error) for each in around]

    def _called(
        self, jobs: Sequence[HeldJob], function: Callable[[Any], Any], size: int
    ) -> list[Any]:
        try:
            ended = list(function(jobs)) if size else [function(jobs[0])]
            if len(ended) != len(jobs):
                raise ValueError(f"{len(ended)} results for a batch of {len(jobs)} jobs")
        except BaseException as error:  # noqa: BLE001 - sys.exit() must not end the thread
            return [error] * len(jobs)
        return ended

    def _take(self) -> list[HeldJob]:
        """The job, or the jobs of a batch, that this thread runs next; none at the end."""
        with self.lock:
            while not self.ended:
                if not self.queue:
                    self.jobs_came.wait()
                    continue
                jobs = [job for job in self._next() if self._may_start(job)]
                if jobs:
                    self.runs[threading.get_ident()] = (time.monotonic(), jobs)
                    return jobs
            return []

    def _next(self) -> list[HeldJob]:
        first = self.queue.popleft()
        most = self.handlers[first.type][1]
        if most <= 1:
            return [first]
        alike = [job for job in self.queue if job.type == first.type]
        batch = {id(job) for job in alike[: most - 1]}
        self.queue = deque(job for job in self.queue if id(job) not in batch)
        return [first, *alike[: most - 1]]

    def _may_start(self, job: HeldJob) -> bool:
        if job.cancelled:
            self.report(job, {"outcome": "cancelled"})
        elif time.monotonic() > job._start_before:
            self.report(job, {"outcome": "released"})
        else:
            return True
        return False

    def _finish(self, job: HeldJob, ended: Any) -> None:
        try:
            outcome = job._outcome(ended)
            job._encoded(outcome)
        except Exception as error:  # noqa: BLE001 - what cannot be sent fails the attempt
            # The next attempt would end with the same.
            ended, outcome = error, {**job._outcome(error), "retry": "never"}
        if outcome["outcome"] == "failed":
            is_expected = isinstance(ended, (Fail, Retry))
            level = logging.INFO if is_expected else logging.WARNING
            logger.log(level, "%r failed: %s", job, _error_line(ended))
            self._hook("on_failed", [job], ended)
        self._hook("after", [job])
        self.report(job, outcome)

    def _hook(self, name: str, jobs: Sequence[HeldJob], *more: Any) -> None:
        for job in jobs:
            for hook in self.hooks.get(name, ()):
                try:
                    hook(job, *more)
                except Exception as error:  # noqa: BLE001 - logged, without what is too long
                    logger.error("hook %s of %r failed: %s", name, job, _error_text(error))


class Worker:
    """Holds jobs of the types that have a handler, runs them in threads, reports how they end.

    A handler gets a `HeldJob`; it returns the result, `Done` or `NextStage`, or raises `Fail`,
    `Retry`, `Later` or `Cancelled`. Any other exception fails the attempt.
    `name` is unique among the workers of this key. Give a fixed one: the default is new at each
    start, so *quiet* does not outlast it. `lease_seconds`: else the lease of the type.
    `stop_seconds`: how long handlers may go on after the worker is asked to stop.
    """

    def __init__(
        self,
        base_url: str,
        key: str,
        name: str = "",
        threads: int = 8,
        version: str = "",
        *,
        host: str = "",
        lease_seconds: int | None = None,
        stop_seconds: float = 20.0,
        timeout: float = 10.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Raises ValueError for a malformed address or key, or without a thread."""
        if threads < 1:
            raise ValueError(f"threads is {threads}; a worker needs at least 1")
        self.host = host or socket.gethostname()[:60]
        self.name = name or f"{self.host}:{os.getpid()}:{secrets.token_hex(4)}"
        self.version = version
        self.stop_seconds = stop_seconds
        self._executor = _Executor(threads)
        if lease_seconds is not None:
            self._executor.asks = {"lease_seconds": lease_seconds}
        # An exchange is repeated until it is answered; a sign of life is soon out of date.
        self._client = Client(base_url, key, timeout=timeout, give_up_after=math.inf, tls=tls)
        self._beats = Client(base_url, key, timeout=timeout, give_up_after=5.0, tls=tls)
        self._given_up = threading.Event()
        self._stop_at = self._idle_since = math.inf
        self._is_signalled = self._is_registered = self._is_quiet = False
        self._failure: BaseException | None = None
        # The earliest times of the next hold, settle and heartbeat.
        self._hold_at = self._settle_at = self._beat_at = -math.inf
        self._largest = _MAX_BATCH
        self._unknown: list[str] = []

    def handler(self, type: str) -> Callable[[T], T]:  # noqa: A002 - the name on the wire
        """Decorates the function that runs the jobs of this type.

        TypeError without the type; ValueError for a second function of one type.
        """
        return self._handled("handler", type, 0)

    def batch(self, type: str, size: int = 100) -> Callable[[T], T]:  # noqa: A002
        """Decorates a function that gets up to `size` jobs of this type in a list, and returns
        their results or exceptions in the same order."""
        return self._handled("batch", type, size)

    def around(self, hook: T) -> T:
        """Run the generator `hook(job)` around each attempt, until its `yield` before the handler
        and on after it; what the handler raises is raised there. What a hook itself raises fails
        the attempt, with its name."""
        return self._hooked("around", hook)

    def before(self, hook: T) -> T:
        """Call `hook(job)` before each job."""
        return self._hooked("before", hook)

    def after(self, hook: T) -> T:
        """Call `hook(job)` after each job, however it ended."""
        return self._hooked("after", hook)

    def on_failed(self, hook: T) -> T:
        """Call `hook(job, error)` after each attempt that failed."""
        return self._hooked("on_failed", hook)

    def run(self) -> None:
        """Work until SIGTERM, SIGINT or `stop()`; a second signal does what it did before, and by
        default ends the process at once.

        Raises ApiError or UnexpectedAnswer when the server refuses the key at the start, and
        ValueError without a handler.
        """
        if not self._executor.handlers:
            words = 'no handler is registered; decorate a function with @worker.handler("video")'
            raise ValueError(words)
        keeper = threading.Thread(target=self._keep, name="taskplatform-keeper", daemon=True)
        earlier = self._listen()
        try:
            keeper.start()
            while keeper.is_alive():
                keeper.join(0.1)
                if self._is_signalled and self._stop_at == math.inf:
                    self._say_stop()
                    self.stop()
                if self._stop_at < math.inf:
                    self._press()
        finally:
            for number, action in earlier.items():
                signal.signal(number, action)
        if self._failure is not None:
            raise self._failure
        if self._is_signalled and not self._executor.held:
            logger.warning("%s stopped; %s went back", self.name, _jobs(self._executor.returned))

    def stop(self) -> None:
        """Ask `run` to end: jobs not begun are released, handlers get `stop_seconds`."""
        with self._executor.lock:
            if self._stop_at == math.inf:
                self._executor.returned = 0
            self._stop_at = min(self._stop_at, time.monotonic())
            for job in self._executor.held.values():
                job.stopping = True
            self._executor.release(everything=True)
            self._executor.news.notify()

    def _handled(self, decorator: str, kind: str, size: int) -> Callable[[T], T]:
        if not isinstance(kind, str):
            words = f'write @worker.{decorator}("video"), with the job type in parentheses'
            raise TypeError(words)

        def register(function: Any) -> Any:
            if kind in self._executor.handlers:
                raise ValueError(f"job type {kind!r} has a handler already")
            self._executor.handlers[kind] = (function, size)
            return function

        return register

    def _say_stop(self) -> None:
        """A warning, because that is seen without any settings for logs."""
        with self._executor.lock:
            at_work = sum(len(jobs) for _, jobs in self._executor.runs.values())
        words = f"{_jobs(at_work)} may run on for at most {self.stop_seconds:g} s"
        logger.warning("%s stops: %s; Ctrl-C again ends it at once", self.name, words)

    def _hooked(self, name: str, hook: T) -> T:
        self._executor.hooks.setdefault(name, []).append(cast("Callable[..., object]", hook))
        return hook

    def _listen(self) -> dict[int, Any]:
        """Stop at the first signal; returns what signals did before."""
        earlier: dict[int, Any] = {}

        def note(number: int, frame: object) -> None:
            # No more than this, because the thread that it interrupts may have the lock.
            self._is_signalled = True
            for each, action in earlier.items():
                # That of Python would end it with a traceback.
                is_usual = action is signal.default_int_handler
                signal.signal(each, signal.SIG_DFL if is_usual else action)

        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                earlier[number] = signal.signal(number, note)
        return earlier

    def _press(self) -> None:
        """Leave handlers that do not end, and then a server that stays away."""
        now = time.monotonic()
        if now > self._stop_at + self.stop_seconds:
            self._executor.abandon()
        if not self._executor.runs:
            self._idle_since = min(self._idle_since, now)
        if now > self._idle_since + _DELIVERY or not self._is_registered:
            self._given_up.set()

    def _keep(self) -> None:
        """The keeper: register, exchange outcomes for jobs, leave."""
        executor = self._executor
        threads = [threading.Thread(target=self._beat, name="taskplatform-beats", daemon=True)]
        for number in range(executor.threads):
            name = f"taskplatform-{number + 1}"
            threads.append(threading.Thread(target=executor.work, name=name, daemon=True))
        try:
            self._register(self._client)
            where = f"{', '.join(executor.handlers)} at {self._client.base_url}"
            logger.info("%s serves %s, %d threads", self.name, where, executor.threads)
            for thread in threads:
                thread.start()
            while not self._given_up.is_set() and self._turn():
                pass
        except Unavailable as error:
            logger.error("%s stops with %d reports: %s", self.name, len(executor.held), error)
        except BaseException as error:  # noqa: BLE001 - `run` raises it
            self._failure = error
        with executor.lock:
            executor.ended = True
            executor.jobs_came.notify_all()
            executor.beats.notify_all()
        self._given_up.set()
        if self._is_registered:
            # A heartbeat after it would register the worker again.
            threads[0].join()
            self._leave()
        self._client.close()
        self._beats.close()

    def _turn(self) -> bool:
        """Do one exchange, or wait until one may be due; False when nothing is left to do."""
        executor = self._executor
        with executor.lock:
            is_over = self._stop_at < math.inf
            executor.release()
            reports, limit = self._plan(is_over)
            if is_over and not reports and not executor.held and not executor.runs:
                return False
            if not reports and not limit:
                pause = 1.0 if self._is_quiet else self._hold_at - time.monotonic()
                executor.news.wait(_OUTCOME_AGE if executor.held else min(max(pause, 0.01), 1.0))
                return True
        hold: dict[str, Any] = {}
        if limit:
            hold = {"host": self.host, "types": list(executor.handlers), "limit": limit}
            hold = {**hold, **executor.asks, "request_id": secrets.token_hex(16)}
        try:
            self._apply(reports, self._exchange(reports, hold))
        except (ApiError, UnexpectedAnswer) as error:
            self._refused(error, reports, bool(hold))
        return True

    def _plan(self, is_over: bool) -> tuple[list[_Report], int]:
        """The reports to send now, and how many jobs to ask for."""
        executor, now = self._executor, time.monotonic()
        outbox = executor.outbox
        may_hold = not is_over and not self._is_quiet and now >= self._hold_at
        limit = executor.wanted() if may_hold else 0
        is_due = bool(outbox) and (
            now - outbox[0].since >= _OUTCOME_AGE
            or len(outbox) in (self._largest, len(executor.held))
            or sum(len(report.encoded) for report in outbox) >= _REPORT_BYTES
        )
        reports: list[_Report] = []
        if (is_due or limit) and now >= self._settle_at:
            size = 0
            while outbox and len(reports) < self._largest:
                size += len(outbox[0].encoded)
                if reports and size > _REPORT_BYTES:
                    break
                reports.append(outbox.popleft())
        return reports, limit

    def _exchange(self, reports: Sequence[_Report], hold: Mapping[str, Any]) -> _Exchanged:
        """Settle and hold in one call, repeated byte for byte until it is answered."""
        named: dict[str, Any] = {"worker": self.name}
        path, body = "/jobs/hold/", _json({**named, **hold})
        if reports:
            named = {**named, "hold": hold} if hold else named
            path, body = "/jobs/settle/", _listing(named, "outcomes", [r.encoded for r in reports])

        def read(answer: _Answer) -> _Exchanged:
            jobs = [HeldJob(job, answer, self._executor) for job in answer.body.get("jobs", ())]
            results = [dict(result) for result in answer.body.get("results", ())]
            wait = float(answer.body["retry_after"]) if hold else None
            return _Exchanged(results, jobs, list(answer.body.get("unknown", ())), wait)

        return self._client._call(path, body, read, self._given_up, max_bytes=_MAX_BATCH_BYTES)

    def _apply(self, reports: Sequence[_Report], answer: _Exchanged) -> None:
        executor = self._executor
        with executor.lock:
            for report, result in zip(reports, answer.results):  # noqa: B905 - Python 3.9
                if not result["ok"] and result["code"] == "invalid":
                    self._replace(report, str(result.get("message", "")))
                    continue
                if not result["ok"]:
                    logger.warning("%r: its outcome does not count: %s", report.job, result["code"])
                executor.forget(report.job)
            if reports:
                self._largest = min(self._largest * 2, _MAX_BATCH)
            if answer.wait is None:
                return
            self._hold_at = time.monotonic() + max(answer.wait, 0.0 if answer.jobs else _MIN_WAIT)
            executor.add(answer.jobs)
            if self._stop_at < math.inf:
                executor.release(everything=True)
        if answer.unknown != self._unknown:
            self._unknown = answer.unknown
            why = (
                "there is no such job type, this key is not bound to it, or it is a pool (use Pool)"
            )
            logger.warning("%s gets no jobs of %s: %s", self.name, ", ".join(self._unknown), why)

    def _refused(self, error: PlatformError, reports: Sequence[_Report], holds: bool) -> None:
        """Without the hold, reports may be taken; among fewer reports, the wrong one is found."""
        status = error.status if isinstance(error, ApiError) else 0
        with self._executor.lock:
            self._executor.outbox.extendleft(reversed(reports))
            if reports and not holds and status in (400, 413, 422):
                self._largest = max(len(reports) // 2, 1)
                if len(reports) == 1:
                    self._replace(self._executor.outbox.popleft(), str(error))
                return
            pause = _random.uniform(*_REFUSED_PAUSE)
            if holds:
                self._hold_at = time.monotonic() + pause
            else:
                self._settle_at = time.monotonic() + pause
        logger.error("%s is refused and asks again in %.0f s: %s", self.name, pause, error)

    def _replace(self, report: _Report, message: str) -> None:
        """What the server never takes must not come back for ever."""
        job = report.job
        job._drop_log()
        if job._encoded(report.outcome) != report.encoded:
            # Beside its log the outcome may be too large, or the server knows of no logs. A sign of
            # life may have dropped the log while the outcome was on its way.
            logger.warning("%r: its log is refused: %s", job, message)
            self._executor.report(job, report.outcome, is_last=report.is_last)
            return
        logger.error("%r: its outcome is refused: %s", job, message)
        if report.is_last:
            self._executor.forget(job)
            return
        job._unsent = ""
        error = _sendable(f"The outcome was refused: {message}")
        failed = {"outcome": "failed", "error": error, "retry": "never"}
        self._executor.report(job, failed, is_last=True)

    def _register(self, client: Client) -> None:
        named = {"name": self.name, "host": self.host, "types": list(self._executor.handlers)}
        body = {**named, "capacity": self._executor.threads, "version": self.version}
        self._heard(client._call("/workers/register/", body, _heartbeat, self._given_up))
        self._is_registered = True

    def _heard(self, answer: tuple[float, bool]) -> None:
        self._executor.heartbeat, is_quiet = answer
        self._beat_at = time.monotonic() + self._executor.heartbeat
        if is_quiet != self._is_quiet:
            logger.info("%s %s", self.name, "takes nothing new" if is_quiet else "goes on")
        self._is_quiet = is_quiet

    def _beat(self) -> None:
        """The thread of the signs of life."""
        executor, failed_at, resume_at = self._executor, -math.inf, -math.inf
        while True:
            with executor.lock:
                while not executor.ended and (wait := self._next_beat(failed_at, resume_at)) > 0:
                    executor.beats.wait(wait)
                if executor.ended:
                    return
            try:
                self._beat_jobs()
                if time.monotonic() >= self._beat_at:
                    self._beat_worker()
            except Exception as error:  # noqa: BLE001 - this thread must not end
                pause = _random.uniform(*_REFUSED_PAUSE)
                failed_at = time.monotonic()
                if isinstance(error, Unavailable):
                    pause, failed_at = error.retry_after, math.inf
                resume_at = time.monotonic() + pause
                logger.warning("%s gives no sign of life for %.1f s: %r", self.name, pause, error)

    def _next_beat(self, failed_at: float, resume_at: float) -> float:
        """The seconds to the next one. After a failure that is no refusal for ever, such as that of
        a proxy in place of the server, it comes soon enough to lose no lease."""
        held = [*self._executor.held.values()]
        for job in held:
            since = max(failed_at, job._came_at)
            if job._lease_end > since:
                resume_at = min(resume_at, since + max(1.0, (job._lease_end - since) / 4))
        due = min([self._beat_at, *(job._beat_at for job in held)])
        return max(due, resume_at) - time.monotonic()

    def _beat_worker(self) -> None:
        with self._executor.lock:
            running = sum(len(jobs) for _, jobs in self._executor.runs.values())
        body = {"name": self.name, "running": running, "stopping": self._stop_at < math.inf}
        try:
            answer = self._beats._call("/workers/heartbeat/", body, _heartbeat, self._given_up)
        except ApiError as error:
            if error.status != 404:
                raise
            self._register(self._beats)
        else:
            self._heard(answer)

    def _beat_jobs(self) -> None:
        """Renew the leases that are due, with the newest checkpoints."""
        with self._executor.lock:
            now = time.monotonic()
            due = [job for job in self._executor.held.values() if job._beat_at <= now]
            signs = deque((job, job._reports, job._sign()) for job in due)
            for job in due:
                job._beat_at = math.inf
        while signs:
            part: list[tuple[HeldJob, int, bytes]] = []
            size = 0
            while signs and len(part) < _MAX_BATCH and size < _REPORT_BYTES:
                size += len(signs[0][2])
                part.append(signs.popleft())
            try:
                self._beat_apart(part)
            except Exception:
                for job, _, _ in (*part, *signs):
                    job._beat_at = now
                raise

    def _beat_apart(self, part: Sequence[tuple[HeldJob, int, bytes]]) -> None:
        """Renew these leases; of a checkpoint that the server refuses, the lease alone."""
        try:
            self._beat_part(part)
        except ApiError as error:
            has_more = any(job._unsent or job._signed for job, _, _ in part)
            if error.status not in (400, 413) or not has_more:
                raise
            if len(part) > 1:
                # It takes no part of a list with one that is wrong: that is found among fewer.
                self._beat_apart(part[: len(part) // 2])
                self._beat_apart(part[len(part) // 2 :])
                return
            [(job, reported, _)] = part
            with self._executor.lock:
                if job._signed:
                    job._drop_log()
                    logger.warning("the log of %r is refused: %s", job, error)
                elif job._reports == reported:
                    logger.error("the checkpoint of %r is refused: %s", job, error)
                    job._unsent, job._refusal = "", str(error)
                again = job, job._reports, job._sign()
            self._beat_apart([again])

    def _beat_part(self, part: Sequence[tuple[HeldJob, int, bytes]]) -> None:
        body = _listing({"worker": self.name}, "leases", [sign for _, _, sign in part])
        answer = self._beats._call(
            *("/jobs/heartbeat/", body, lambda answer: answer, self._given_up),
            max_bytes=_MAX_BATCH_BYTES,
        )
        with self._executor.lock:
            for (job, reported, _), lease in zip(part, answer.body["leases"]):  # noqa: B905
                if self._executor.held.get(job.id) is not job:
                    continue
                if lease["ok"]:
                    job._take_sign(reported, lease, answer)
                else:
                    logger.warning("%r is lost: %s", job, lease.get("code"))
                    self._executor.lose(job)
            self._executor.beats.notify_all()

    def _leave(self) -> None:
        try:
            self._beats._call("/workers/leave/", {"name": self.name}, bool, self._given_up)
        except PlatformError as error:
            logger.warning("%s could not leave: %s", self.name, error)


class FakeClient(Client):
    """A client for tests: it calls nobody, keeps what is submitted, and runs handlers of a worker.

    client = FakeClient()
    place_order(client)
    assert client.submitted("mail") == [{"type": "mail", "context": {"to": "ann@example.com"}}]
    outcome = client.perform(worker, "mail", {"to": "ann@example.com"})
    assert outcome == {"outcome": "succeeded", "result": {"sent": 1}}
    """

    def __init__(self) -> None:
        super().__init__("http://fake.invalid", "fake.key")
        self._made: list[dict[str, Any]] = []

    def submitted(self, type: str) -> list[dict[str, Any]]:  # noqa: A002 - the name on the wire
        """The jobs of the type as the API would get them, in their order."""
        return [job for job in self._made if job["type"] == type]

    def perform(
        self,
        worker: Worker,
        type: str,  # noqa: A002 - the name on the wire
        context: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """The outcome as the API would get it of the worker's handler for one job. `more` are
        fields of a held job, such as `key`, `attempt` and `checkpoint`. LookupError without a
        handler."""
        if type not in worker._executor.handlers:
            known = ", ".join(worker._executor.handlers) or "none"
            raise LookupError(f"the worker has no handler of {type!r}; it has: {known}")
        function, size = worker._executor.handlers[type]
        now = datetime.now(timezone.utc)  # noqa: UP017 - Python 3.9
        body = {
            **{"id": "1", "type": type, "key": "", "user_id": "", "stage": "", "trace_id": ""},
            **{"attempt": 1, "max_attempts": 3, "checkpoint": None, "sequence": 0},
            **{"cancel_requested": False, "lease_token": "", "context": dict(context or {})},
            "lease_until": _wire(now + timedelta(hours=1)),
            **more,
        }
        answer = _Answer({"now": _wire(now)}, 0.0, time.monotonic())
        job = HeldJob(json.loads(_json(body)), answer, _Executor(1))
        # No checkpoint waits for a server.
        job._known = sys.maxsize
        [ended] = worker._executor.ended_of([job], function, size)
        outcome: dict[str, Any] = json.loads(_json(job._outcome(ended), job._unsent))
        if job._lines:
            # Without their times.
            outcome["log"] = [line.partition(" ")[2] for line in job._lines]
        return outcome

    def _call(
        self,
        path: str,
        body: Mapping[str, Any] | bytes | None,
        read: Callable[[_Answer], T],
        stop: threading.Event | None = None,
        *,
        max_bytes: int = _MAX_BODY_BYTES,
        at_most: float = math.inf,
        method: str = "",
    ) -> T:
        if path != "/jobs/" or not isinstance(body, Mapping):
            raise PlatformError(f"{type(self).__name__} answers submissions only, not {path}")
        said = json.loads(_json(body))
        said.pop("request_id", None)
        is_one = "jobs" not in said and not said.pop("everywhere", False)
        answers = [self._keep(job) for job in said.get("jobs", [said])]
        return read(_Answer(answers[0] if is_one else {"jobs": answers}, 0.0))

    def _keep(self, job: dict[str, Any]) -> dict[str, Any]:
        named = job["type"], job.get("key", "")
        for at, other in enumerate(self._made):
            if job.get("unique") and (other["type"], other.get("key", "")) == named:
                times = {name: value for name, value in job.items() if name in ("delay", "run_at")}
                twin = "returned"
                if job.get("on_twin") == "replace":
                    self._made[at], twin = job, "replaced"
                elif job.get("on_twin") == "later":
                    self._made[at], twin = {**other, **times}, "moved"
                return {"id": str(at + 1), "created": False, "status": "ready", "twin": twin}
        self._made.append(job)
        status = "scheduled" if job.get("delay") or job.get("run_at") else "ready"
        return {"id": str(len(self._made)), "created": True, "status": status, "twin": ""}


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


def _sendable(text: str, limit: int = _MAX_MESSAGE) -> str:
    """Text that the server accepts: cut, without NUL and lone surrogates."""
    return _begin_of(text, limit).replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _begin_of(text: str, most: int) -> str:
    """As many of the first characters as whole words have, as the server cuts texts: a part of a
    secret might not be masked as one."""
    if len(text) <= most:
        return text
    # A word that is longer is cut.
    least = max(most // 2, most - 2_000)
    ends = [found.start() for found in re.compile(r"\s").finditer(text, least, most + 1)]
    return text[: ends[-1] if ends else least]


def _json(body: Mapping[str, Any], checkpoint: str = "") -> bytes:
    """The body as it is sent, with a checkpoint that is JSON already."""
    text = json.dumps(body, allow_nan=False, separators=(",", ":"))
    _check_keys(body)
    return (f'{text[:-1]},"checkpoint":{checkpoint}}}' if checkpoint else text).encode()


def _check_keys(value: Any) -> None:
    """TypeError for a key that is no text: JSON would make one of it, perhaps that of another."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{type(key).__name__} is not a JSON key; use text")
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return
    for each in value:
        _check_keys(each)


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


def _job_body(job: Submission | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(job, Submission):
        return job._body()
    return {name: _wire(value) for name, value in job.items()}


def _submitted(body: Mapping[str, Any]) -> Submitted:
    # An older server does not say what it did to the twin.
    more = {name: body.get(name, "") for name in ("twin", "host")}
    return Submitted(body["id"], body["created"], body["status"], **more)


def _job(body: Mapping[str, Any]) -> Job:
    values = {part.name: body[part.name] for part in fields(Job) if part.name != "parent"}
    values["parent"] = body.get("parent")
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


@dataclass(frozen=True)
class _Exchanged:
    """The answer of an exchange; `wait` is None when it held nothing."""

    results: list[dict[str, Any]]
    jobs: list[HeldJob]
    unknown: list[str]
    wait: float | None


def _listing(body: Mapping[str, Any], name: str, items: Sequence[bytes]) -> bytes:
    """The body with a list of what is JSON already."""
    return b'%b,"%b":[%b]}' % (_json(body)[:-1], name.encode(), b",".join(items))


def _heartbeat(answer: _Answer) -> tuple[float, bool]:
    return float(answer.body["heartbeat_seconds"]), bool(answer.body["stop"])


def _when(run_at: datetime | timedelta | None) -> dict[str, Any]:
    if isinstance(run_at, timedelta):
        return {"delay": max(run_at.total_seconds(), 0.0)}
    return {"run_at": _wire(run_at)}


def _jobs(count: int) -> str:
    return f"{count} job{'' if count == 1 else 's'}"


def _is_at_once(run_at: datetime | timedelta) -> bool:
    return isinstance(run_at, timedelta) and run_at <= timedelta(0)


def _words(error: BaseException) -> str:
    """What the error says, as its traceback has it."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an error that cannot be shown is a failure like others
        return "<exception str() failed>"


def _error_text(error: BaseException) -> str:
    """The traceback, without the middle of a long one; of what a handler says, the words."""
    try:
        if isinstance(error, (Fail, Retry)):
            text = str(error)
        else:
            text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except Exception as second:  # noqa: BLE001 - its __str__ may raise, too
        text = f"{type(error).__name__}, which cannot be formatted: {type(second).__name__}"
    if len(text) > _MAX_ERROR:
        head, tail = _begin_of(text, _MAX_ERROR - 3100), _begin_of(text[::-1], 3000)[::-1]
        text = f"{head}\n… cut …\n{tail}"
    return _sendable(text.strip(), _MAX_ERROR)


def _error_line(error: BaseException) -> str:
    """`Class: first line`: errors are grouped by it, and a long one is logged so."""
    try:
        text = "".join(traceback.format_exception_only(type(error), error))
    except Exception as second:  # noqa: BLE001 - its attributes may raise, too
        text = f"{type(error).__name__}, which cannot be formatted: {type(second).__name__}"
    said = [line for line in text.splitlines() if line.strip()]
    named = next((at for at, line in enumerate(said) if not line.startswith((" ", "\t", "…"))), 0)
    line = said[named].strip()
    if line.endswith(":"):
        line = " ".join(map(str.strip, said[named : named + 2]))
    return _sendable(line, _MAX_SUMMARY)


def _bucket(answer: _Answer) -> Bucket:
    names = [part.name for part in fields(Assigned)]
    items = [{name: item[name] for name in names} for item in answer.body["items"]]
    assigned = [Assigned(**{**i, "lease_until": _instant(i["lease_until"])}) for i in items]
    return Bucket(tuple(assigned), float(answer.body["retry_after"]))


def _keys(keys: Iterable[str]) -> list[str]:
    """The keys; a string would be taken as the list of its letters."""
    if isinstance(keys, str):
        raise TypeError("keys is a list of keys, not one string")
    return list(keys)


def _checked(answer: _Answer) -> Checked:
    body = answer.body
    return Checked(body["match"], tuple(body["missing"]), tuple(body["extra"]))


def _reported(verb: str) -> Callable[[_Answer], Reported]:
    return lambda answer: Reported(
        tuple(answer.body[verb]), tuple(answer.body["refused"]), answer.body["reasons"]
    )
