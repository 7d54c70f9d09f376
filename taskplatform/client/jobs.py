"""The commands of jobs, their types and workers.

Python 3.9 or later, standard library only.
"""

from __future__ import annotations

import secrets
import sys
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any

from .console import Console
from .sdk import ApiError
from .tables import say, shown
from .words import Misused, json_of

JOB_PATH = "/api/v1/jobs/{number}/"
# Seconds between looks at a log.
_PAUSE = 1.0
_FINAL = ("succeeded", "failed", "cancelled")


class Jobs(Console):
    """The commands about jobs."""

    def _submit(self) -> None:
        body = self._options_body(
            self._fields("/api/v1/jobs/"), "type", "context", "request_id", "jobs"
        )
        name, context = self._words.take("TYPE", "[CONTEXT]", optional=1)
        body.update(type=name, context=json_of(context) if context else {})
        body["request_id"] = secrets.token_hex(16)
        made = self._call("/jobs/", body)
        if self._is_json:
            self._print(made)
        elif "jobs" in made:
            for each in made["jobs"]:
                say(f"{each['id']} {each['host']}")
        else:
            say(made["id"] if made["created"] else f"{made['id']} was there, {made['status']}")

    def _show(self) -> None:
        self._words.only()
        [number] = self._words.take("ID")
        job = self._call(_job(number))
        attempts = list(self._pages(f"{_job(number)}journal/"))
        if self._is_json:
            self._print({**job, "journal": attempts})
            return
        self._fields_of(job)
        if not attempts:
            return
        say("")
        names = ("at", "event", "attempt", "worker", "reason", "error")
        self._table(names, attempts, widest=60)

    def _list(self) -> None:
        query = self._options_body(self._fields("/api/v1/jobs/", "get"), "cursor")
        self._words.take()
        names = ("id", "type", "key", "status", "attempts", "run_at", "worker", "memo")
        self._listed("/jobs/", urllib.parse.urlencode(query, doseq=True), names)

    def _log(self) -> None:
        self._words.only("follow")
        [number] = self._words.take("ID")
        after = ""
        while True:
            answer = self._read_log(number, after)
            for attempt in answer["attempts"]:
                self._print_log(attempt)
            sys.stdout.flush()
            after = answer["after"]
            if not answer["more"]:
                if answer["status"] in _FINAL or "follow" not in self._words.options:
                    return
                time.sleep(_PAUSE)

    def _read_log(self, number: str, after: str) -> dict[str, Any]:
        """`{"attempts": [{"attempt", "lines": [{"at", "text"}], "left_out"}], "after", "more",
        "status"}`: what follows `after`."""
        query = f"?{urllib.parse.urlencode({'after': after})}" if after else ""
        try:
            answer: dict[str, Any] = self._call(f"{_job(number)}log/{query}")
        except ApiError as error:
            if error.status != 404:
                raise
            self._call(_job(number))
            raise Misused("This server keeps no log") from error
        return answer

    def _print_log(self, attempt: Mapping[str, Any]) -> None:
        if self._is_json:
            self._print(attempt)
            return
        for line in attempt["lines"]:
            say(f"{shown('at', line['at'])} {attempt['attempt']}  {line['text']}".strip())
        if attempt["left_out"]:
            say(f"… {attempt['left_out']} lines left out …")

    def _act(self) -> int:
        """Do the verb to each job; the code of the first that refuses it."""
        verb = self._words.command
        body = self._options_body(self._fields(f"{JOB_PATH}{verb}/"))
        if not self._words.others:
            raise Misused(f"Type: taskplatform {verb} ID…")
        return self._do(self._words.others, lambda number: f"{_job(number)}{verb}/", body)

    # --- types and workers ----------------------------------------------------------------------
    def _types(self) -> None:
        self._words.only()
        self._words.take()
        names = ("name", "handler", "lane", "max_attempts", "max_running", "paused", "pause_reason")
        self._rows("/job-types/", names)

    def _pause(self) -> None:
        self._words.only("reason")
        self._change({"paused": True, "pause_reason": self._words.one("reason")})

    def _resume(self) -> None:
        self._words.only()
        self._change({"paused": False})

    def _change(self, body: Mapping[str, Any]) -> None:
        [name] = self._words.take("TYPE")
        path = f"/job-types/{urllib.parse.quote(name, safe='')}/"
        changed = self._call(path, body, "PATCH")
        if self._is_json:
            self._print(changed)
        else:
            say(f"{changed['name']} {'paused' if changed['paused'] else 'runs'}")

    def _workers(self) -> None:
        self._words.only()
        self._words.take()
        names = (
            "name",
            "host",
            "kind",
            "state",
            "quiet",
            "running",
            "capacity",
            "last_heartbeat_at",
        )
        self._rows("/workers/", names)


def _job(number: str) -> str:
    return f"/jobs/{urllib.parse.quote(number, safe='')}/"
