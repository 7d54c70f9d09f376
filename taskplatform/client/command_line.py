"""The platform at a terminal: `taskplatform COMMAND …`, over HTTP with an API key.

Python 3.9 or later, standard library only. What is said of jobs, runs and filters comes from the
OpenAPI document of the server, so that a newer server has more of both.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Literal, cast

from .console import NO_KEY, NO_SERVER, REFUSED, USAGE, complain
from .flows import Flows
from .jobs import JOB_PATH, Jobs
from .sdk import ApiError, Nothing, PlatformError, _wire
from .tables import note, say, shown
from .words import FLAGS, Misused, client_of, json_of, read_words

HELP = """taskplatform COMMAND …   with TASKPLATFORM_URL and TASKPLATFORM_KEY in the environment

  submit TYPE [CONTEXT]     make a job; CONTEXT is a JSON object, @FILE or - for standard input
  show ID                   a job with its attempts
  list [--FILTER VALUE …]   jobs, newest first; --all for every page
  log ID [-f]               what the handler of a job logged; -f goes on until it ends
  cancel, retry, run-now, … ID…   what the server can do to jobs; --reason TEXT
  types                     the job types
  pause TYPE, resume TYPE   stop and start the jobs of a type; --reason TEXT
  workers                   who runs jobs
  flow start NAME [PARAM=VALUE …]   start a run of a flow; --key TEXT
  flow list, flow show RUN  runs, newest first; one with its steps
  flow retry, pause, … RUN…   what the server can do to runs; flow skip, … RUN STEP to steps
  flows                     the saved flows
  pull UID                  the task of a user that is due now
  callback UID NUMBER succeeded|failed [RESULT]

  COMMAND --help            its options, which the server names
  --json                    for programs
  --url URL                 in place of TASKPLATFORM_URL
  --api-key-file FILE       a file with the key; also TASKPLATFORM_KEY_FILE
  --api-key KEY             others on this machine see it: rather one of the above

Ends with 0; 1 refused, 2 not understood, 3 no server, 4 key refused."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of one command."""
    typed = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        # One that cannot write a letter, such as a file on Windows, writes a question mark.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        words = read_words(typed, FLAGS)
        if not words.command or words.command == "help":
            say(HELP)
            return 0 if words.options or words.command else USAGE
        with client_of(words) as client:
            console = Terminal(client, typed, words)
            return console.run()
    except Misused as error:
        return complain(str(error), USAGE)
    except ApiError as error:
        return complain(str(error), NO_KEY if error.status in (401, 403) else REFUSED)
    except PlatformError as error:
        return complain(str(error), NO_SERVER)
    except BrokenPipeError:
        # As `| head` does. Python would complain once more while it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


class Terminal(Jobs, Flows):
    """One command at one server."""

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
            "flows": self._flows,
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
        if command == "flow":
            return self._flow()
        if command not in (verbs := self._verbs(JOB_PATH)):
            raise Misused(
                f"There is no command {command!r}; there are {', '.join([*own, 'flow', *verbs])}. "
                "taskplatform --help says more"
            )
        return self._act()

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


if __name__ == "__main__":
    sys.exit(main())
