"""The requests of a benchmark, fired at a server in this process."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.benchmark import load
from tests.benchmark.load import Clients, fire, post
from tests.stub_server import Handler, Stub, cuts_short, hangs_up, says, serving


@pytest.fixture
def server() -> Iterator[Stub]:
    with serving() as stub:
        yield stub


def echoes(handler: Handler) -> None:
    says(200, handler.seen.body)(handler)


def numbered(count: int) -> list[bytes]:
    return [post("/api/", {"n": n}, key="demo.key") for n in range(count)]


class TestFire:
    def test_answers_stand_in_the_order_of_their_requests(self, server: Stub) -> None:
        server.behaves(echoes)
        volley = fire(server.server_port, numbered(30), connections=4)
        assert [answer.json for answer in volley.answers] == [{"n": n} for n in range(30)]
        assert {answer.status for answer in volley.answers} == {200}
        assert all(0 < answer.seconds < volley.seconds for answer in volley.answers)
        assert volley.rate == 30 / volley.seconds

    def test_connections_are_kept_and_take_what_others_leave(self, server: Stub) -> None:
        all_sent = threading.Event()

        def first_waits(handler: Handler) -> None:
            if len(server.seen) == 30:
                all_sent.set()
            if handler.seen.body == {"n": 0}:
                assert all_sent.wait(20)
            echoes(handler)

        server.behaves(first_waits)
        fire(server.server_port, numbered(30), connections=3)
        shares = Counter(seen.peer for seen in server.seen)
        assert len(shares) <= 3
        assert min(shares.values()) == 1

    def test_clients_go_on_with_their_own_work(self, server: Stub) -> None:
        """On the same connection; a client that is done takes no requests of others."""
        server.behaves(echoes)
        with Clients(server.server_port, 3) as clients:
            first = clients.fire(numbered(30))
            second = clients.fire(numbered(20), after=first)
        assert [answer.json for answer in second.answers] == [{"n": n} for n in range(20)]
        assert second.sent_by == first.sent_by[:20]
        peers: dict[int, set[object]] = {n: set() for n in range(30)}
        for seen in server.seen:
            peers[seen.body["n"]].add(seen.peer)
        assert {len(each) for each in peers.values()} == {1}

    def test_request_carries_path_body_and_key(self, server: Stub) -> None:
        server.behaves(says(200, {}))
        fire(server.server_port, [post("/api/", {"uid": "李娜"}, key="demo.key")], connections=1)
        [seen] = server.seen
        assert (seen.path, seen.body) == ("/api/", {"uid": "李娜"})
        assert seen.authorization == "Bearer demo.key"

    def test_fewer_requests_than_connections_are_all_answered(self, server: Stub) -> None:
        server.behaves(echoes)
        assert len(fire(server.server_port, numbered(2), connections=8).answers) == 2

    def test_empty_answer_leaves_the_connection_in_use(self, server: Stub) -> None:
        server.behaves(says(204))
        volley = fire(server.server_port, numbered(4), connections=1)
        assert [(each.status, each.body) for each in volley.answers] == [(204, b"")] * 4
        assert len({seen.peer for seen in server.seen}) == 1

    def test_answer_in_many_pieces_is_read_to_its_end(self, server: Stub) -> None:
        server.behaves(says(200, {"text": "x" * 500_000}))
        volley = fire(server.server_port, numbered(2), connections=1)
        assert [len(answer.json["text"]) for answer in volley.answers] == [500_000] * 2

    def test_problem_is_an_answer_like_any_other(self, server: Stub) -> None:
        server.behaves(says(500, {"code": "internal"}))
        [answer] = fire(server.server_port, numbered(1), connections=1).answers
        assert (answer.status, answer.json) == (500, {"code": "internal"})


class TestBreakingOff:
    @pytest.mark.parametrize("behaviour", [hangs_up, cuts_short], ids=["at once", "half-way"])
    def test_server_that_hangs_up_is_an_error(self, server: Stub, behaviour: object) -> None:
        server.behaves(behaviour)  # type: ignore[arg-type]
        with pytest.raises(ConnectionError, match="in the middle of an answer"):
            fire(server.server_port, numbered(1), connections=1)

    def test_answer_without_a_length_is_an_error(self, server: Stub) -> None:
        def answers_until_the_end(handler: Handler) -> None:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n{}")

        server.behaves(answers_until_the_end)
        with pytest.raises(ConnectionError, match="an answer 200 without its length"):
            fire(server.server_port, numbered(1), connections=1)

    def test_nobody_listening_is_an_error_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(load, "ANSWER_SECONDS", 3)
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            with pytest.raises(ConnectionRefusedError):
                fire(reserved.getsockname()[1], numbered(4), connections=4)
