"""The commands of flows and their runs: `taskplatform flow VERB …`.

Python 3.9 or later, standard library only.
"""

from __future__ import annotations

import secrets
import urllib.parse
from collections.abc import Callable
from typing import Any

from .console import Console
from .tables import say
from .words import Misused, json_or_text

RUN_PATH = "/api/v1/flow-runs/{number}/"
STEP_PATH = f"{RUN_PATH}steps/{{step}}/"


class Flows(Console):
    """The commands about flows; the verb is the word after `flow`."""

    def _flows(self) -> None:
        self._words.only()
        self._words.take()
        self._rows("/flows/", ("name", "version", "title", "status", "created_at", "created_by"))

    def _flow(self) -> int:
        """The exit code of `flow VERB …`."""
        own: dict[str, Callable[[], None]] = {
            "start": self._start_run,
            "list": self._list_runs,
            "show": self._show_run,
        }
        verb = self._words.others[0] if self._words.others else ""
        if verb in own:
            own[verb]()
            return 0
        of_runs, of_steps = self._verbs(RUN_PATH), self._verbs(STEP_PATH)
        if verb in of_runs:
            return self._act_on_runs(verb)
        if verb in of_steps:
            return self._act_on_step(verb)
        there = ", ".join([*own, *of_runs, *of_steps])
        raise Misused(f"There is no command 'flow {verb}'; after flow comes one of {there}")

    def _start_run(self) -> None:
        body = self._options_body(
            self._fields("/api/v1/flow-runs/"), "flow", "definition", "request_id"
        )
        if len(self._words.others) < 2:
            raise Misused("Type: taskplatform flow start NAME [PARAM=VALUE …]")
        _verb, name, *pairs = self._words.others
        body["flow"] = name
        body["params"] = {**body.get("params", {}), **dict(map(_param, pairs))}
        body["request_id"] = secrets.token_hex(16)
        made = self._call("/flow-runs/", body)
        if self._is_json:
            self._print(made)
        else:
            say(made["id"] if made["created"] else f"{made['id']} was there, {made['status']}")

    def _list_runs(self) -> None:
        query = self._options_body(self._fields("/api/v1/flow-runs/", "get"), "cursor")
        self._take("list")
        names = ("id", "flow", "key", "status", "paused", "started_by", "created_at", "finished_at")
        self._listed("/flow-runs/", urllib.parse.urlencode(query, doseq=True), names)

    def _show_run(self) -> None:
        self._words.only()
        [number] = self._take("show", "RUN")
        run = self._call(_run(number))
        if self._is_json:
            self._print(run)
            return
        self._fields_of(run, "definition", "steps")
        say("")
        names = ("name", "kind", "state", "made", "task", "started_at", "ended_at", "by", "memo")
        self._table(names, run["steps"], widest=60)

    def _act_on_runs(self, verb: str) -> int:
        body = self._options_body(self._fields(f"{RUN_PATH}{verb}/"))
        numbers = self._words.others[1:]
        if not numbers:
            raise Misused(f"Type: taskplatform flow {verb} RUN…")
        return self._do(numbers, lambda number: f"{_run(number)}{verb}/", body)

    def _act_on_step(self, verb: str) -> int:
        body = self._options_body(self._fields(f"{STEP_PATH}{verb}/"))
        number, step = self._take(verb, "RUN", "STEP")
        path = f"steps/{urllib.parse.quote(step, safe='')}/{verb}/"
        return self._do([number], lambda number: f"{_run(number)}{path}", body)

    def _take(self, verb: str, *names: str) -> list[str]:
        """The words after the verb."""
        words = self._words._replace(command=f"flow {verb}", others=self._words.others[1:])
        return words.take(*names)


def _param(text: str) -> tuple[str, Any]:
    """A name and its value."""
    name, is_pair, value = text.partition("=")
    if not is_pair or not name:
        raise Misused(f"{text!r} is no param; type its name and value, as shop=Bern")
    return name, json_or_text(value)


def _run(number: str) -> str:
    return f"/flow-runs/{urllib.parse.quote(number, safe='')}/"
