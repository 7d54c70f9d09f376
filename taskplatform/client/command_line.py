"""The platform at a terminal: `taskplatform COMMAND …`, over HTTP with an API key.

Python 3.9 or later, standard library only. What is said of jobs and of filters comes from the
OpenAPI document of the server, so that a newer server has more of both.
"""

from __future__ import annotations

import copy
import json
import os
import secrets
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from .sdk import _MAX_BODY_BYTES, ApiError, Client, Nothing, PlatformError, _wire
from .tables import fit, note, say, shown, table
from .words import (
    FLAGS,
    Misused,
    Words,
    client_of,
    is_flag,
    json_of,
    meaning,
    read_words,
    value_of,
)

HELP = """taskplatform COMMAND …   with TASKPLATFORM_URL and TASKPLATFORM_KEY in the environment

  submit TYPE [CONTEXT]     make a job; CONTEXT is a JSON object, @FILE or - for standard input
  show ID                   a job with its attempts
  list [--FILTER VALUE …]   jobs, newest first; --all for every page
  log ID [-f]               what the handler of a job logged; -f goes on until it ends
  cancel, retry, run-now, … ID…   what the server can do to jobs; --reason TEXT
  types                     the job types
  pause TYPE, resume TYPE   stop and start the jobs of a type; --reason TEXT
  workers                   who runs jobs
  pull UID                  the task of a user that is due now
  callback UID NUMBER succeeded|failed [RESULT]

  COMMAND --help            its options, which the server names
  --json                    for programs
  --url URL                 in place of TASKPLATFORM_URL
  --api-key-file FILE       a file with the key; also TASKPLATFORM_KEY_FILE
  --api-key KEY             others on this machine see it: rather one of the above

Ends with 0; 1 refused, 2 not understood, 3 no server, 4 key refused."""
REFUSED, USAGE, NO_SERVER, NO_KEY = 1, 2, 3, 4
# Seconds between looks at a log.
_PAUSE = 1.0
_FINAL = ("succeeded", "failed", "cancelled")
_JOB_PATH = "/api/v1/jobs/{number}/"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of one command."""
    typed = list(sys.argv[1:] if arguments is None else arguments)
    try:
        words = read_words(typed, FLAGS)
        if not words.command or words.command == "help":
            say(HELP)
            return 0 if words.options or words.command else USAGE
        with client_of(words) as client:
            console = Console(client, typed, words)
            return console.run()
    except Misused as error:
        return _complain(str(error), USAGE)
    except ApiError as error:
        return _complain(str(error), NO_KEY if error.status in (401, 403) else REFUSED)
    except PlatformError as error:
        return _complain(str(error), NO_SERVER)
    except BrokenPipeError:
        # As `| head` does. Python would complain once more while it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


class Console:
    """One command at one server."""

    def __init__(self, client: Client, typed: Sequence[str], words: Words) -> None:
        self._client = client
        self._typed = typed
        self._words = words
        self._is_json = "json" in words.options
        self._known: dict[str, Any] = {}

    def run(self) -> int:
        """The exit code; PlatformError and Misused as of `main`."""
        own: dict[str, Callable[[], None]] = {
            "submit": self._submit,
            "show": self._show,
            "list": self._list,
            "log": self._log,
            "types": self._types,
            "pause": self._pause,
            "resume": self._resume,
            "workers": self._workers,
            "pull": self._pull,
            "callback": self._callback,
        }
        command = self._words.command
        if "help" in self._words.options and command in own and command not in ("submit", "list"):
            say(HELP)
            return 0
        if command in own:
            own[command]()
            return 0
        if command not in (verbs := self._verbs()):
            raise Misused(
                f"There is no command {command!r}; there are {', '.join([*own, *verbs])}. "
                "taskplatform --help says more"
            )
        return self._act()

    # --- what the server says of itself -------------------------------------------------------
    @property
    def _document(self) -> dict[str, Any]:
        """Its OpenAPI document."""
        if not self._known:
            # Beside the addresses of this version, over the same connection.
            beside = copy.copy(self._client)
            beside._path = beside._path.removesuffix("/v1")
            self._known = beside._call("/schema/", None, lambda answer: answer.body)
        return self._known

    def _verbs(self) -> list[str]:
        """What can be done to a job."""
        paths = self._document["paths"]
        found = [path[len(_JOB_PATH) : -1] for path in paths if path.startswith(_JOB_PATH)]
        return [verb for verb in found if verb and "post" in paths[f"{_JOB_PATH}{verb}/"]]

    def _fields(self, path: str, method: str = "post") -> dict[str, Any]:
        """The schemas of the fields of a body, or of the parameters of a list."""
        operation = self._document["paths"][path][method]
        if method == "get":
            return {each["name"]: each["schema"] | each for each in operation["parameters"]}
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        return self._properties(schema)

    def _properties(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return self._properties(self._document["components"]["schemas"][name])
        if "oneOf" in schema:
            return self._properties(schema["oneOf"][0])
        return dict(schema.get("properties", {}))

    def _said(self, fields: Mapping[str, Any], *left_out: str) -> dict[str, Any]:
        """The options of this command as these fields; Misused for others. Prints them instead, and
        ends, when that is asked for."""
        fields = {name: each for name, each in fields.items() if name not in left_out}
        flags = {name.replace("_", "-") for name, each in fields.items() if is_flag(each)}
        words = read_words(self._typed, FLAGS | flags)
        self._words = words
        if "help" in words.options:
            for name, each in fields.items():
                say(f"--{name.replace('_', '-'):20} {meaning(each)}".rstrip())
            raise SystemExit(0)
        words.only("all", *(name.replace("_", "-") for name in fields))
        body: dict[str, Any] = {}
        for option, values in words.options.items():
            name = option.replace("-", "_")
            if name in fields:
                many = fields[name].get("type") == "array"
                read = [value_of(option, value, fields[name]) for value in values]
                body[name] = read if many else read[-1]
        return body

    # --- jobs -----------------------------------------------------------------------------------
    def _submit(self) -> None:
        body = self._said(self._fields("/api/v1/jobs/"), "type", "context", "request_id", "jobs")
        name, context = self._words.take("TYPE", "[CONTEXT]", optional=1)
        body.update(type=name, context=json_of(context) if context else {})
        body["request_id"] = secrets.token_hex(16)
        made = self._call("/jobs/", body)
        if self._is_json:
            self._print(made)
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
        for name, value in job.items():
            if value not in (None, "", [], {}, False):
                say(f"{name:16} {shown(name, value)}")
        if not attempts:
            return
        say("")
        names = ("at", "event", "attempt", "worker", "reason", "error")
        self._table(names, attempts, widest=60)

    def _list(self) -> None:
        query = self._said(self._fields("/api/v1/jobs/", "get"), "cursor")
        self._words.take()
        path = f"/jobs/?{urllib.parse.urlencode(query, doseq=True)}"
        answer = self._call(path)
        rows, following = answer["results"], answer["next"]
        if "all" in self._words.options and following:
            rows = [*rows, *self._pages(self._after(following))]
            following = None
        if self._is_json:
            self._print(rows)
        else:
            names = ("id", "type", "key", "status", "attempts", "run_at", "worker", "memo")
            self._table(names, rows)
        if following:
            note("There may be more: --all shows every page")

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
        body = self._said(self._fields(f"{_JOB_PATH}{verb}/"))
        if not self._words.others:
            raise Misused(f"Type: taskplatform {verb} ID…")
        body.setdefault("reason", "at the command line")
        code = 0
        for number in self._words.others:
            try:
                job = self._call(f"{_job(number)}{verb}/", body)
            except ApiError as error:
                if error.status in (401, 403):
                    raise
                code = _complain(f"{number}: {error}", REFUSED)
                continue
            if self._is_json:
                self._print(job)
            else:
                say(f"{job['id']} {job['status']}")
        return code

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

    # --- tasks of people ------------------------------------------------------------------------
    def _pull(self) -> None:
        self._words.only()
        [uid] = self._words.take("UID")
        offer = self._client.pull(uid)
        if isinstance(offer, Nothing):
            if self._is_json:
                self._print(None)
            note(f"Nothing is due for {uid}")
            return
        said = {name: _wire(value) for name, value in vars(offer).items()}
        if self._is_json:
            self._print(said)
            return
        for name, value in said.items():
            say(f"{name:16} {shown(name, value)}")

    def _callback(self) -> None:
        self._words.only("message")
        names = ("UID", "NUMBER", "succeeded|failed", "[RESULT]")
        uid, number, outcome, result = self._words.take(*names, optional=1)
        if outcome not in ("succeeded", "failed"):
            raise Misused(f"{outcome!r} is no outcome; say succeeded or failed")
        ended = self._client.callback(
            uid,
            number,
            cast(Literal["succeeded", "failed"], outcome),
            json_of(result) if result else None,
            self._words.one("message"),
        )
        if self._is_json:
            self._print({"number": ended.number, "state": ended.state})
        else:
            say(f"{ended.number} {ended.state}")

    # --- calls and output -----------------------------------------------------------------------
    def _call(self, path: str, body: Mapping[str, Any] | None = None, method: str = "") -> Any:
        most = _MAX_BODY_BYTES
        return self._client._call(path, body, lambda a: a.body, max_bytes=most, method=method)

    def _pages(self, path: str) -> Iterator[dict[str, Any]]:
        following: str | None = path
        while following:
            answer = self._call(following)
            yield from answer["results"]
            following = answer["next"] and self._after(answer["next"])

    def _after(self, address: str) -> str:
        """The path of a next page as `_call` takes it."""
        return address.partition("/api/v1")[2]

    def _rows(self, path: str, names: Sequence[str]) -> None:
        rows = list(self._pages(path))
        if self._is_json:
            self._print(rows)
        else:
            self._table(names, rows)

    def _table(
        self, names: Sequence[str], rows: Sequence[Mapping[str, Any]], widest: int = 30
    ) -> None:
        if not rows:
            note("None")
            return
        cells = [[fit(shown(name, row.get(name)), widest) for name in names] for row in rows]
        filled = [at for at in range(len(names)) if any(row[at] for row in cells)]
        shown_rows = [[row[at] for at in filled] for row in cells]
        for line in table([names[at] for at in filled], shown_rows):
            say(line)

    def _print(self, value: Any) -> None:
        sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


def _job(number: str) -> str:
    return f"/jobs/{urllib.parse.quote(number, safe='')}/"


def _complain(line: str, code: int) -> int:
    note(line)
    return code


if __name__ == "__main__":
    sys.exit(main())
