"""I4, I13: the client for other machines, its repeats and its clear errors."""

from __future__ import annotations

import ssl
import subprocess
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from taskplatform import sdk
from tests.stub_server import (
    ENDED,
    KEY,
    OPEN,
    Handler,
    SteppingClock,
    Stub,
    cuts_short,
    ends,
    hangs_up,
    never_answers,
    offers,
    problem,
    resets,
    says,
    says_text,
    then_closes,
    unused_port,
)


class TestCalls:
    def test_pull_of_a_due_task_returns_it_with_times_in_utc(
        self, stub: Stub, client: sdk.Client
    ) -> None:
        stub.behaves(offers)
        dispatch = client.pull("uid_alice")
        assert isinstance(dispatch, sdk.Dispatch)
        assert (dispatch.number, dispatch.task, dispatch.params) == ("901", 12, {"shelf": 3})
        assert dispatch.occurrence_at == datetime(2026, 3, 2, 9, tzinfo=UTC)
        assert dispatch.dispatched_at == datetime(2026, 3, 2, 9, 0, 1, 250_000, tzinfo=UTC)
        (seen,) = stub.seen
        assert (seen.path, seen.body) == ("/api/v1/dispatch/", {"uid": "uid_alice"})
        assert seen.authorization == f"Bearer {KEY}"

    def test_pull_when_nothing_is_due_is_false_and_says_when_to_ask(
        self, subtests: pytest.Subtests, stub: Stub, client: sdk.Client
    ) -> None:
        for headers, seconds in (
            ({"Retry_After": "17"}, 17.0),
            ({}, 5.0),
            ({"Retry_After": "soon"}, 5.0),
            ({"Retry_After": "9" * 18}, 86_400.0),
            ({"Retry_After": "Mon, 02 Mar 99999999999999999999 09:00:30 GMT"}, 5.0),
            ({"Retry_After": "Mon, 02 Mar 2099 09:00:30 GMT"}, 86_400.0),
        ):
            with subtests.test(headers=headers):
                stub.behaves(says(204, None, **headers))
                nothing = client.pull("uid_alice")
                assert isinstance(nothing, sdk.Nothing)
                assert not nothing
                assert nothing.retry_after == seconds

    def test_callback_with_next_returns_the_first_answer_and_the_following_task(
        self, stub: Stub, client: sdk.Client
    ) -> None:
        stub.behaves(says(200, {**ENDED, "next": OPEN}))
        ending = client.callback("uid_alice", "901", "succeeded", {"n": 1}, next=True)
        assert ending.state == "succeeded"
        assert ending.finished_at == datetime(2026, 3, 2, 9, 5, tzinfo=UTC)
        assert isinstance(ending.next, sdk.Dispatch)
        assert stub.seen[0].path == "/api/v1/callback/?next=1"

    def test_callback_with_next_while_nothing_is_due_says_when_to_ask(
        self, stub: Stub, client: sdk.Client
    ) -> None:
        stub.behaves(says(200, ENDED, Retry_After="9"))
        ending = client.callback("uid_alice", "901", "failed", message="torn", next=True)
        assert ending.next == sdk.Nothing(9.0)
        assert stub.seen[0].body["message"] == "torn"

    def test_extend_and_release_reach_their_routes(self, stub: Stub, client: sdk.Client) -> None:
        stub.behaves(offers, says(200, {"number": "901", "state": "released"}))
        assert client.extend("uid_alice", "901", 60).deadline_at.hour == 10
        assert client.release("uid_alice", "901", "rain") == sdk.Ending("901", "released")
        assert [seen.path for seen in stub.seen] == [
            "/api/v1/dispatch/extend/",
            "/api/v1/dispatch/release/",
        ]
        assert [seen.body for seen in stub.seen] == [
            {"uid": "uid_alice", "number": "901", "seconds": 60},
            {"uid": "uid_alice", "number": "901", "reason": "rain"},
        ]

    def test_calls_in_a_row_share_one_connection(self, stub: Stub, client: sdk.Client) -> None:
        stub.behaves(offers)
        for _ in range(5):
            client.pull("uid_alice")
        assert len({seen.peer for seen in stub.seen}) == 1

    def test_threads_on_one_client_each_get_their_own_answer(
        self, stub: Stub, client: sdk.Client
    ) -> None:
        def offers_under_the_name(handler: Handler) -> None:
            says(200, {**OPEN, "title": handler.seen.body["uid"]})(handler)

        stub.behaves(offers_under_the_name)
        wrong: list[str] = []

        def pull(uid: str) -> None:
            for _ in range(20):
                dispatch = client.pull(uid)
                if not dispatch or dispatch.title != uid:
                    wrong.append(uid)

        threads = [threading.Thread(target=pull, args=(f"uid_{n}",)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert len(stub.seen) == 160


class TestRepeats:
    def test_trouble_that_passes_is_repeated_with_the_same_body(
        self, subtests: pytest.Subtests, stub: Stub, client: sdk.Client
    ) -> None:
        for name, trouble in {
            "503": problem(503, "unavailable"),
            "429": problem(429, "throttled"),
            "gateway": says_text(502, b"<html>", "text/html"),
            "hangs up": hangs_up,
            "reset": resets,
            "cut short": cuts_short,
            "garbage": says_text(200, b'{"number": ', "application/json"),
            "empty": says_text(200, b"", "application/json"),
        }.items():
            with subtests.test(name):
                stub.seen.clear()
                stub.behaves(trouble, ends)
                ending = client.callback("uid_alice", "901", "succeeded", {"n": 1})
                assert ending.state == "succeeded"
                first, second = stub.seen
                assert first.body == second.body

    def test_silence_is_repeated_on_a_new_connection(self, stub: Stub) -> None:
        stub.behaves(never_answers, offers)
        with sdk.Client(stub.url, KEY, timeout=0.2) as client:
            assert client.pull("uid_alice")
        assert stub.seen[0].peer != stub.seen[1].peer

    def test_kept_connection_closed_by_the_server_is_replaced_at_once(
        self, stub: Stub, client: sdk.Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sdk, "_FIRST_PAUSE", 1000.0)
        stub.behaves(then_closes(offers), offers)
        assert client.pull("uid_alice")
        assert client.pull("uid_alice")
        assert len({seen.peer for seen in stub.seen}) == 2

    def test_pauses_are_drawn_from_spans_that_double_up_to_ten_seconds(
        self, stub: Stub, client: sdk.Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spans: list[tuple[float, float]] = []

        class Shortest:
            def uniform(self, low: float, high: float) -> float:
                spans.append((low, high))
                return low

        monkeypatch.setattr(sdk, "_random", Shortest())
        stub.behaves(*[problem(503, "unavailable")] * 8, offers)
        assert client.pull("uid_alice")
        assert spans == [(0, high) for high in (0.25, 0.5, 1, 2, 4, 8, 10, 10)]

    def test_answer_that_is_too_long_leaves_nothing_behind_on_the_connection(
        self, stub: Stub, client: sdk.Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sdk, "_MAX_ANSWER_BYTES", 1000)
        stub.behaves(says(200, {**OPEN, "title": "x" * 2000}), offers)
        dispatch = client.pull("uid_alice")
        assert isinstance(dispatch, sdk.Dispatch)
        assert dispatch.title == OPEN["title"]
        assert len(stub.seen) == 2

    def test_retry_after_is_waited_before_the_repeat(self, stub: Stub, client: sdk.Client) -> None:
        stub.behaves(problem(503, "unavailable", Retry_After="1"), offers)
        assert client.pull("uid_alice")
        first, second = stub.seen
        assert 1.0 <= second.at - first.at < 30

    def test_retry_after_beyond_the_patience_gives_up_at_once(
        self, stub: Stub, client: sdk.Client
    ) -> None:
        stub.behaves(problem(429, "throttled", "Slower.", Retry_After="3600"))
        with pytest.raises(sdk.Unavailable, match="429 Slower") as caught:
            client.pull("uid_alice")
        assert caught.value.retry_after >= 3600
        assert len(stub.seen) == 1

    def test_lasting_trouble_gives_up_within_the_patience(
        self, stub: Stub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = SteppingClock(monkeypatch)
        stub.behaves(problem(503, "unavailable", "The database is away."))
        with (
            sdk.Client(stub.url, KEY, give_up_after=0.8) as client,
            pytest.raises(sdk.Unavailable, match="The database is away"),
        ):
            client.pull("uid_alice")
        assert clock.now <= clock.step + 0.8 + clock.step
        assert len(stub.seen) > 1

    def test_nobody_listening_is_an_error_with_the_address(self) -> None:
        with (
            unused_port() as port,
            sdk.Client(f"http://127.0.0.1:{port}", KEY, give_up_after=0.1) as client,
            pytest.raises(sdk.Unavailable, match=f"127.0.0.1:{port}.*refused.*server is running"),
        ):
            client.pull("uid_alice")


class TestRefusals:
    def test_refusal_carries_what_the_platform_says(self, stub: Stub, client: sdk.Client) -> None:
        stub.behaves(problem(422, "conflict", "The first answer stands."))
        with pytest.raises(sdk.ApiError) as caught:
            client.callback("uid_alice", "901", "failed")
        error = caught.value
        assert (error.status, error.code, error.request_id) == (422, "conflict", "r-7")
        assert error.errors[0]["field"] == "result"
        assert str(error) == "The first answer stands. (422, conflict, request r-7)"
        assert len(stub.seen) == 1

    def test_refusal_of_something_before_the_platform_keeps_its_status(
        self, stub: Stub, client: sdk.Client
    ) -> None:
        stub.behaves(says_text(403, b"<html>", "text/html"))
        with pytest.raises(sdk.ApiError, match=r"Forbidden \(403\)") as caught:
            client.pull("uid_alice")
        assert caught.value.code == ""

    def test_body_larger_than_the_server_takes_is_refused_before_it_is_sent(
        self, stub: Stub, client: sdk.Client
    ) -> None:
        with pytest.raises(sdk.ApiError) as caught:
            client.callback("uid_alice", "901", "succeeded", {"blob": "x" * 262_144})
        assert (caught.value.status, caught.value.code) == (413, "too_large")
        assert stub.seen == []

    def test_another_service_at_the_address_is_named_at_once(
        self, subtests: pytest.Subtests, stub: Stub, client: sdk.Client
    ) -> None:
        for behaviour, words in (
            (says_text(200, b"<html>Router", "text/html"), "text/html, not JSON"),
            (says_text(404, b"<html>", "text/html"), "404 without a problem document"),
            (says(200, ["another", "service"]), "JSON of another shape"),
            (says(200, {}), "JSON of another shape"),
            (says(301, None, Location="https://tasks.example.com/"), "https://tasks.example.com/"),
        ):
            with subtests.test(words=words):
                stub.seen.clear()
                stub.behaves(behaviour)
                with pytest.raises(sdk.UnexpectedAnswer, match=words) as caught:
                    client.pull("uid_alice")
                assert stub.url in str(caught.value)
                assert "Is base_url the address" in str(caught.value)
                assert len(stub.seen) == 1

    def test_certificate_that_is_not_trusted_stops_before_the_key_is_sent(
        self, stub: Stub, tmp_path: Path
    ) -> None:
        key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
        options = (
            "-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=127.0.0.1 "
            "-addext subjectAltName=IP:127.0.0.1"
        )
        command = ["openssl", "req", *options.split(), "-keyout", key, "-out", certificate]
        subprocess.run(command, check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        stub.socket = context.wrap_socket(stub.socket, server_side=True)
        stub.behaves(offers)
        url = stub.url.replace("http:", "https:")
        with sdk.Client(url, KEY) as client, pytest.raises(sdk.UnexpectedAnswer, match="trusted"):
            client.pull("uid_alice")
        assert stub.seen == []
        trusting = ssl.create_default_context(cafile=str(certificate))
        with sdk.Client(url, KEY, tls=trusting) as client:
            assert client.pull("uid_alice")
