"""The command line against the real API."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from taskplatform import sdk
from taskplatform.client import command_line, console, jobs
from tests.acceptance.conftest import Template
from tests.processes import ROOT
from tests.serving import Web
from tests.stub_server import KEY, ends, offers, serving

Run = Callable[..., tuple[int, str, str]]
NO_SERVER = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def url(shared_web: Web) -> str:
    return shared_web.url


@pytest.fixture(scope="module")
def key(keyed_database: Template) -> str:
    return keyed_database.key


@pytest.fixture
def run(
    url: str, key: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Run:
    """`run("show", "7")`: exit code, standard output and standard error."""
    monkeypatch.setenv("TASKPLATFORM_URL", url)
    monkeypatch.setenv("TASKPLATFORM_KEY", key)

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            code = command_line.main(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
        said = capsys.readouterr()
        assert key.partition(".")[2] not in said.out + said.err
        return code, said.out, said.err

    return run


def test_day_at_the_terminal(run: Run, url: str, key: str, tmp_path: Path) -> None:
    """Submit, look, act, log, types and workers; tables for people, JSON for programs."""
    with sdk.Client(url, key) as client:
        client._call("/job-types/", {"name": "mail"}, bool)
        worker = {"name": "pi-1", "types": ["mail"], "host": "pi"}
        client._call("/workers/register/", worker, bool)
    # As Notepad writes it.
    (tmp_path / "context.json").write_text('{"to": "李雷\\u001b[31m"}', encoding="utf-8-sig")

    code, number, _ = run("submit", "mail", f"@{tmp_path / 'context.json'}", "--key", "order-7")
    number = number.strip()
    assert code == 0
    again = run("submit", "mail", "{}", "--priority=5", "--key", "order-7", "--unique", "--json")
    assert json.loads(again[1])["created"] is True
    # As some shells pass it on.
    with mock.patch("sys.stdin", io.StringIO('\ufeff{"from": "stdin"}')):
        made = json.loads(run("submit", "mail", "-", "--delay", "3600", "--json")[1])
    assert (made["created"], made["status"]) == (True, "scheduled")

    shown = run("show", number)[1]
    # Nothing that a job says colours the terminal.
    assert "李雷" in shown
    assert "\x1b" not in shown
    job = json.loads(run("show", number, "--json")[1])
    assert (job["id"], job["key"], job["journal"]) == (number, "order-7", [])

    listed = json.loads(run("list", "--status", "scheduled", "--json")[1])
    assert [row["id"] for row in listed] == [made["id"]]
    assert run("list", "--limit", "1", "--json")[2] == "There may be more: --all shows every page\n"
    assert len(json.loads(run("list", "--limit", "1", "--all", "--json")[1])) == 3
    assert run("list", "--type", "mail", "--where", "context.from:stdin")[1].count("mail") == 1
    assert "--created-after" in run("list", "--help")[1]
    assert run("list", "--key", "nothing") == (0, "", "Nothing found\n")

    assert run("run-now", made["id"], "--reason", "It is time")[:2] == (0, f"{made['id']} ready\n")
    cancelled = run("cancel", number, "1", made["id"], "--force")
    assert cancelled[:2] == (1, f"{number} cancelled\n{made['id']} cancelled\n")
    assert "There is no job 1" in cancelled[2]
    assert run("retry", number, "--context", '{"to": "ben"}')[:2] == (0, f"{number} ready\n")
    assert json.loads(run("show", number, "--json")[1])["context"] == {"to": "ben"}
    assert "It is time" in run("show", made["id"])[1]

    assert run("pause", "mail", "--reason", "Server down")[:2] == (0, "mail paused\n")
    assert "Server down" in run("types")[1]
    assert run("resume", "mail")[:2] == (0, "mail runs\n")
    assert "pi-1" in run("workers")[1]
    everywhere = run("submit", "mail", "--everywhere")
    assert everywhere[0] == 0 and re.fullmatch(r"\d+ pi\n", everywhere[1])


def test_flow_is_started_and_brought_to_its_end(run: Run, url: str, key: str) -> None:
    """Verbs of runs and of their steps come from the server; params are JSON, or else text."""
    steps = [
        {"name": "gate", "kind": "wait"},
        {"name": "look", "kind": "wait", "needs": ["gate"]},
    ]
    with sdk.Client(url, key) as client:
        client._call("/flows/", {"name": "night", "definition": {"steps": steps}}, bool)

    assert "night" in run("flows")[1]
    start = ("flow", "start", "night", "shop=Bern", "boxes=3", "--key", "2026-11-27")
    code, number, _ = run(*start)
    number = number.strip()
    assert code == 0
    assert run(*start)[1] == f"{number} was there, running\n"
    assert "--definition" not in run("flow", "start", "--help")[1]

    assert run("flow", "pause", number)[:2] == (0, f"{number} paused\n")
    shown = run("flow", "show", number)[1]
    assert "paused           yes" in shown
    assert "gate  wait  active" in shown
    assert run("flow", "resume", number)[0] == 0
    finished = run("flow", "finish", number, "gate", "--result", '{"well": true}')
    assert finished[:2] == (0, f"{number} running\n")
    again = run("flow", "skip", number, "look", "--reason", "Nobody needs it")
    assert again[:2] == (0, f"{number} succeeded\n")
    run_ = json.loads(run("flow", "show", number, "--json")[1])
    assert run_["params"] == {"shop": "Bern", "boxes": 3}
    assert [(each["result"], each["memo"]) for each in run_["steps"]] == [
        ({"well": True}, ""),
        (None, "Nobody needs it"),
    ]
    listed = json.loads(
        run("flow", "list", "--status", "succeeded", "--flow", "night", "--json")[1]
    )
    assert [row["id"] for row in listed] == [number]
    refused = run("flow", "cancel", number, "1", "--reason", "Too late")
    assert refused[0] == 1
    assert f"{number}: " in refused[2] and "There is no flow run 1" in refused[2]


def test_what_is_wrong_is_said_with_an_exit_code(
    run: Run, subtests: pytest.Subtests, tmp_path: Path
) -> None:
    for code, words, said in (
        (1, ["submit", "mial"], "There is no job type 'mial'"),
        (1, ["show", "1"], "There is no job 1"),
        (1, ["pause", "mial"], "There is no job type 'mial'"),
        (1, ["list", "--limit", "0"], "limit"),
        (1, ["log", "1"], "There is no job 1"),
        (2, [], ""),
        (2, ["dance"], "There is no command 'dance'; there are submit, show"),
        (2, ["list", "--colour", "red"], "list has no option --colour; it has: --all"),
        (2, ["workers", "--type", "mail"], "workers has no option --type; it has: none"),
        (2, ["show"], "Type: taskplatform show ID"),
        (2, ["cancel"], "Type: taskplatform cancel ID…"),
        (1, ["flow", "show", "1"], "There is no flow run 1"),
        (2, ["flow"], "after flow comes one of start, list, show, cancel"),
        (2, ["flow", "dance"], "There is no command 'flow dance'"),
        (2, ["flow", "start"], "Type: taskplatform flow start NAME"),
        (2, ["flow", "start", "night", "Bern"], "'Bern' is no param"),
        (2, ["flow", "skip", "1"], "Type: taskplatform flow skip RUN STEP"),
        (2, ["submit", "mail", "{to: ann}"], "No JSON in it"),
        (2, ["submit", "mail", "[1]"], "The JSON is no object"),
        (2, ["submit", "mail", '{"a": NaN}'], "No JSON in it"),
        (2, ["submit", "mail", '{"a": -1e999}'], "No JSON in it"),
        (2, ["submit", "mail", '{"a":' * 100_000], "No JSON in it: it is nested too deep"),
        # As Python has bytes that are not UTF-8.
        (2, ["list", "--key", "caf\udce9"], "is not text in UTF-8"),
        (2, ["submit", "mail", "--max-attempts", "1e999"], "--max-attempts is a number"),
        (2, ["submit", "mail", f"@{tmp_path}/none"], "cannot be read"),
        (2, ["submit", "mail", "@/dev/zero"], "has more than 16777216 characters"),
        (2, ["submit", "mail", "--priority", "high"], "--priority is a number, not 'high'"),
        (2, ["callback", "uid_a", "7", "done"], "'done' is no outcome"),
        (2, ["list", "--api-key", "s3cret"], "key is not of the form"),
        (2, ["list", "--url", "tasks"], "is not an address"),
        (2, ["list", "--api-key-file", f"{tmp_path}/none"], "cannot be read"),
        (3, ["list", "--url", NO_SERVER], "Connection refused"),
        (4, ["list", "--api-key", "no.key"], "This API key is not valid"),
        (4, ["pull", "uid_a"], "lacks the scope pull"),
    ):
        with subtests.test(words=words):
            ended = run(*words)
            assert ended[0] == code, ended
            assert said in ended[2]
            assert "s3cret" not in ended[1] + ended[2]
    assert run("--help")[0] == run("show", "--help")[0] == run("help")[0] == 0


def test_log_goes_on_until_the_job_ends(run: Run) -> None:
    """What the API answers: lines by attempt, and `after` to go on."""
    lines = [{"at": "2026-03-02T09:00:00.250Z", "text": "half\x1b[2J done"}]
    first = {"attempts": [{"attempt": 1, "hold": 1, "lines": lines, "left_out": 0}]}
    more = {"attempts": [{"attempt": 2, "hold": 2, "lines": [], "left_out": 3}]}
    answers = [
        {**first, "after": "1.1", "more": True, "status": "running"},
        {"attempts": [], "after": "1.1", "more": False, "status": "running"},
        {**more, "after": "2.0", "more": False, "status": "succeeded"},
    ]
    asked: list[str] = []

    def call(self: object, path: str, *more: object) -> object:
        asked.append(path)
        return answers.pop(0)

    with (
        mock.patch.object(console.Console, "_call", call),
        mock.patch.object(jobs.time, "sleep"),
    ):
        code, out, _ = run("log", "7", "-f")
    assert code == 0
    assert out.endswith(" 1  half?[2J done\n… 3 lines left out …\n")
    assert asked == ["/jobs/7/log/", "/jobs/7/log/?after=1.1", "/jobs/7/log/?after=1.1"]


def test_tasks_of_people_are_pulled_and_called_back(run: Run) -> None:
    with serving() as stub:
        at = ["--url", stub.url, "--api-key", KEY]
        stub.behaves(offers)
        assert "Photograph shelf 3" in run("pull", "uid_a", *at)[1]
        stub.behaves(offers)
        assert json.loads(run("pull", "uid_a", "--json", *at)[1])["number"] == "901"
        stub.behaves(ends)
        ended = run("callback", "uid_a", "901", "succeeded", '{"photos": 3}', *at)
        assert ended[:2] == (0, "901 succeeded\n")
        assert stub.seen[-1].body["result"] == {"photos": 3}


def test_program_needs_nothing_but_python_and_takes_the_key_from_a_file(
    url: str, key: str, tmp_path: Path
) -> None:
    (tmp_path / "taskplatform_client").symlink_to(ROOT / "taskplatform" / "client")
    (tmp_path / "key").write_text(f"{key}\n")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
    program += "from taskplatform_client.command_line import main; sys.exit(main())"
    command = [sys.executable, "-I", "-S", "-W", "error", "-c", program, "types", "--json"]
    environment = {"TASKPLATFORM_URL": url, "TASKPLATFORM_KEY_FILE": str(tmp_path / "key")}
    listed = subprocess.check_output(command, env=environment, text=True)
    assert isinstance(json.loads(listed), list)


def test_file_in_a_code_page_takes_what_it_can(url: str, key: str, tmp_path: Path) -> None:
    """`taskplatform list > jobs.txt` on Windows ended with a traceback at the line of a table."""
    with sdk.Client(url, key) as client:
        client._call("/job-types/", {"name": "paged", "title": "Fotos für 李雷"}, bool)
    (tmp_path / "taskplatform_client").symlink_to(ROOT / "taskplatform" / "client")
    program = "import sys; from taskplatform_client.command_line import main; sys.exit(main())"
    environment = {"TASKPLATFORM_URL": url, "TASKPLATFORM_KEY": key, "PYTHONPATH": str(tmp_path)}

    def said(*words: str) -> str:
        command = [sys.executable, "-c", program, *words]
        coded = {**environment, "PYTHONIOENCODING": "cp1252"}
        return subprocess.check_output(command, env=coded).decode("cp1252")

    assert "paged" in said("types")
    assert "taskplatform COMMAND" in said("--help")
    titles = [each["title"] for each in json.loads(said("types", "--json"))]
    assert "Fotos für 李雷" in titles
