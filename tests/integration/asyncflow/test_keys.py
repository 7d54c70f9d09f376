"""Keys, scopes, bindings and limits hold for asyncflow as for the REST API. S2.13."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from itertools import product
from socket import socket
from typing import Any

import pytest
from django.core.checks import run_checks
from django.test import override_settings

from apps.access import services as access
from apps.access.rules.clients import Scope
from apps.asyncflow.calls import CALLS
from apps.asyncflow.dialects import BY_NAME, OWN_PORT
from apps.jobs.handlers import Retry, http
from apps.jobs.models import Job, Worker
from tests.integration.asyncflow.worker_calls import Calls
from tests.jobs import job_type

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("lark")]

MakeKey = Callable[..., str]


EVERY_ROUTE = [
    (dialect, route)
    for dialect in BY_NAME.values()
    for route in dialect.routes
    if route.call != "ping"
]


def code_of(answer: Any) -> int:
    """The code, in a body that unmodified workers can read."""
    assert answer.headers["Content-Type"] == "application/json"
    code = json.loads(answer.content)["code"]
    assert type(code) is int
    return code


def test_call_is_answered_with_its_scope_alone_and_refused_with_a_code_without_it(
    make_key: MakeKey, subtests: pytest.Subtests
) -> None:
    alone = {scope: make_key(scopes=[scope]) for scope in Scope}
    others = {scope: make_key(scopes=[each for each in Scope if each != scope]) for scope in Scope}
    for dialect, route in EVERY_ROUTE:
        scope = CALLS[route.call].scope
        keys = (alone[scope], 200), (None, 401), (others[scope], 403)
        with subtests.test(dialect=dialect.name, path=route.path):
            for (key, status), method in product(keys, route.methods):
                answer = Calls(dialect.name, key).raw(route.call, method)
                assert answer.status_code == status
                assert answer.headers["Content-Length"] == str(len(answer.content))
                assert code_of(answer) == 8020 or status == 200


def test_methods_that_a_dialect_does_not_have_change_nothing(
    make_key: MakeKey, subtests: pytest.Subtests
) -> None:
    key = make_key()
    methods = {"get", "head", "post", "put", "patch", "delete", "options"}
    for dialect, route in EVERY_ROUTE:
        with subtests.test(dialect=dialect.name, path=route.path):
            for method in methods - set(route.methods):
                body = b'{"task_type":"lark","taskType":"lark"}'
                answer = Calls(dialect.name, key).raw(route.call, method, body)
                assert answer.status_code == 405
                assert method == "head" or code_of(answer) == 8020
    assert not Job.objects.exists()


def test_key_bound_to_a_type_reaches_no_other(calls: Calls, make_key: MakeKey) -> None:
    job_type("mail", handler="", stages=["*"])
    bound = Calls(calls.dialect.name, make_key(job_types=["mail"]))
    task = calls.create()
    [held] = calls.hold()

    assert bound.ask("hold", task_type="lark", limit=1) == (8039, None)
    assert bound.ask("create", {"task_type": "lark"})[0] == 8039
    assert bound.ask("get", task_id=task)[0] == 8035
    assert bound.ask("list", task_type="lark", status=2, limit=9)[0] == 8039
    assert bound.set(held["task_id"], "succeeded") == 8035
    names = [each[calls.dialect.spelled("task_type")] for each in bound.ask("settings")[1]]
    assert names == ["mail"]


def test_settings_are_those_of_types_that_only_workers_over_http_run(calls: Calls) -> None:
    """Else a worker would load what it cannot run."""
    job_type("own")
    job_type("keys", handler="", pool=True)

    names = [each[calls.dialect.spelled("task_type")] for each in calls.ask("settings")[1]]

    assert names == ["lark"]


def test_key_bound_to_users_sees_their_tasks_and_holds_none(go: Calls, make_key: MakeKey) -> None:
    go.create(user_id="uid_bob")
    bound = Calls("g2", make_key(executors=["uid_alice"]))
    own = bound.create(user_id="uid_alice")

    assert bound.ask("create", {"task_type": "lark", "user_id": "uid_bob"})[0] == 8037
    _, tasks = bound.ask("list", task_type="lark", status=1, limit=9)
    assert [task["task_id"] for task in tasks] == [own]
    assert bound.raw("hold", task_type="lark").status_code == 403
    assert bound.ask("count", task_type="lark") == (0, 1)


def test_rate_and_wrong_keys_are_limited_as_everywhere(make_key: MakeKey) -> None:
    limited = Calls("g2", make_key(rate="1/m"))
    assert limited.raw("settings").status_code == 200
    answer = limited.raw("settings")
    assert (answer.status_code, code_of(answer)) == (429, 8020)
    assert int(answer.headers["Retry-After"]) > 0

    with override_settings(FAILED_KEY_LIMIT=1):
        wrong = Calls("java", make_key().partition(".")[0] + ".wrong")
        assert [wrong.raw("settings").status_code for _ in range(2)] == [401, 429]


def test_secrets_are_masked_for_keys_without_the_scope(go: Calls, make_key: MakeKey) -> None:
    """A worker that holds the task has them."""
    name = go.create(task_context='{"password": "secret", "to": "bob"}')
    reader = Calls("g2", make_key(scopes=["read"]))

    shown = json.loads(reader.ask("get", task_id=name)[1]["context"])
    assert shown == {"password": "••••••", "to": "bob"}
    assert json.loads(go.ask("get", task_id=name)[1]["context"])["password"] == "secret"

    # The second name hides the first one from whoever parses it.
    for plain, seen in (
        ('{"to":"bob","n":1.0}', '{"to":"bob","n":1.0}'),
        ('{"a":{"password":"secret"},"a":1}', '{"a":{"password":"••••••"},"a":1}'),
    ):
        other = go.create(task_context=plain)
        assert reader.ask("get", task_id=other)[1]["context"] == seen

    copied = {"task_type": "lark", "task_context": json.dumps(shown, ensure_ascii=False)}
    code, _answer = Calls("g2", make_key(scopes=["submit"])).ask("create", copied)
    assert code != 0

    worker = Calls("g2", make_key(scopes=["hold"]))
    assert "secret" in worker.hold()[0]["task_context"]
    shown = json.loads(reader.ask("get", task_id=name)[1]["context"])
    assert shown == {"password": "••••••", "to": "bob"}


# --- the switch for calls from this machine -------------------------------------------------------
@pytest.fixture
def local(make_key: MakeKey) -> Iterator[str]:
    client = make_key(scopes=["hold"]).partition(".")[0]
    with override_settings(ASYNCFLOW_LOOPBACK_CLIENT=client):
        yield client


def at_port(name: str, key: str | None = None, **headers: str) -> Calls:
    """A caller at the port of the dialect."""
    calls = Calls(name, key, **headers)
    calls._client.defaults[OWN_PORT] = True
    return calls


@pytest.mark.both
def test_call_from_this_machine_needs_no_key_where_the_switch_says_so(local: str) -> None:
    assert at_port("g1").hold() == []
    assert Worker.objects.get().client == local
    # Its scopes are those of the key.
    answer = at_port("g1").raw("create")
    assert (answer.status_code, code_of(answer)) == (403, 8020)


def test_call_of_somebody_else_is_not_from_this_machine(
    local: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a proxy, of a page, and of a job or an alert, which anybody may have written."""
    headers = "X-Forwarded-For", "Forwarded", "X-Real-IP", "Via", "Origin", "Sec-Fetch-Site"
    foreign = [at_port("java", **{header: "127.0.0.1"}) for header in headers]
    sent: list[dict[str, str]] = []

    def request(*given: Any) -> None:
        sent.append(given[4])
        raise OSError

    monkeypatch.setattr(HTTPConnection, "request", request)
    with socket() as listening, pytest.raises(Retry):
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        http.send(http.Target("http", "localhost", port, "/", "127.0.0.1"), "GET", {}, None, 5)
    foreign.append(at_port("java", **sent[0]))
    # At the port of the platform there is no proxy that could say who asks.
    foreign.append(Calls("java", None))

    for calls in foreign:
        assert calls.raw("hold").status_code == 401, calls._headers


def test_switch_opens_the_dialects_to_this_machine_alone(local: str, api_with: Any) -> None:
    def refuses(caller: Calls) -> bool:
        return bool(caller.raw("settings").status_code == 401)

    elsewhere = at_port("g1")
    elsewhere._client.defaults["REMOTE_ADDR"] = "10.0.0.7"
    assert refuses(elsewhere)
    assert refuses(at_port("g1", f"{local}.wrong"))
    assert api_with(None).get("/api/v1/jobs/").status_code == 401
    with override_settings(ASYNCFLOW_LOOPBACK_CLIENT=""):
        assert refuses(at_port("g1"))
    access.revoke(access.find(local), actor="test")
    assert refuses(at_port("g1"))


def test_switch_is_warned_of_and_needs_a_client_with_a_valid_key(local: str) -> None:
    def found() -> list[str]:
        checked = run_checks(databases=["default"])
        return sorted(str(each.id) for each in checked if "LOOPBACK" in f"{each.msg}{each.hint}")

    assert found() == ["asyncflow.W001"]
    access.revoke(access.find(local), actor="test")
    assert found() == ["asyncflow.E001", "asyncflow.W001"]
    with override_settings(ASYNCFLOW_LOOPBACK_CLIENT="nobody"):
        assert found() == ["asyncflow.E001", "asyncflow.W001"]
    with override_settings(ASYNCFLOW_LOOPBACK_CLIENT=""):
        assert found() == []


# --- what is refused before a call is known -------------------------------------------------------


def test_bug_has_a_code(go: Calls, monkeypatch: pytest.MonkeyPatch, lark: Any) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(type(lark), "snapshot", property(fail))
    go._client.raise_request_exception = False

    answer = go.raw("settings")

    assert (answer.status_code, code_of(answer)) == (500, 8020)
    assert b"a bug" not in answer.content


def test_foreign_host_name_and_call_without_tls_have_a_code(go: Calls) -> None:
    """A redirect would turn the POST of a worker into a GET, with the key in the clear."""
    with override_settings(SECURE_SSL_REDIRECT=True):
        answer = go.raw("hold")
    assert (answer.status_code, code_of(answer)) == (403, 8020)
    go._headers["Host"] = "evil.example"
    answer = go.raw("settings")
    assert (answer.status_code, code_of(answer)) == (400, 8020)
