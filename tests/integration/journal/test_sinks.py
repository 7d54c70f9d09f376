"""S0.26, S0.30: each kind of sink against a disk, a Redis, an HTTP server, a Kafka cluster."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
import redis

from apps.common import ids
from apps.journal.conf import SinkAddress, parse_sinks
from apps.journal.sinks import Line, Refused, Unavailable, open_sink
from tests.servers import redis_server
from tests.stub_server import answering

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def lines(count: int, *, at: datetime = NOON, text: str = "") -> list[Line]:
    first = ids.lowest_id_at(at)
    return [
        Line(first + n, n % 3, text or f'{{"id":"{first + n}","event":"failed"}}')
        for n in range(count)
    ]


def address(url: str) -> SinkAddress:
    [found] = parse_sinks(f"it={url}")
    return found


# --- files --------------------------------------------------------------------------------------
@pytest.mark.both
def test_files_have_a_line_for_each_entry_by_day(tmp_path: Path) -> None:
    sink = open_sink(address(f"file://{tmp_path}/made/here"))
    today, tomorrow = lines(2), lines(1, at=NOON + timedelta(days=1))
    sink.deliver([*today, *tomorrow])
    sink.deliver(lines(1, at=NOON + timedelta(hours=1)))

    folder = tmp_path / "made" / "here"
    written = (folder / "journal-2026-03-02.jsonl").read_text().splitlines()
    assert [json.loads(each)["id"] for each in written][:2] == [str(line.id) for line in today]
    assert len(written) == 3
    assert (folder / "journal-2026-03-03.jsonl").read_text() == f"{tomorrow[0].text}\n"


def test_torn_line_of_a_killed_process_is_cut(tmp_path: Path, subtests: pytest.Subtests) -> None:
    path = tmp_path / "journal-2026-03-02.jsonl"
    [line] = lines(1)
    wholes = ["", '{"id":"1"}\n', '{"id":"1"}\n{"id":"2"}\n']
    for whole, torn in product(wholes, ['{"id":', "x" * 200_000]):
        with subtests.test(whole=whole, torn=torn):
            path.write_text(whole + torn)
            open_sink(address(f"file://{tmp_path}")).deliver([line])
            assert path.read_text() == f"{whole}{line.text}\n"


@pytest.mark.both
def test_what_has_not_reached_the_disk_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_file: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(Unavailable, match="Input/output error"):
        open_sink(address(f"file://{tmp_path}")).deliver(lines(1))


def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    sink = open_sink(address(f"file://{tmp_path}/file"))
    with pytest.raises(Unavailable, match="file"):
        sink.deliver(lines(1))


# --- Redis --------------------------------------------------------------------------------------
def test_stream_has_an_entry_for_each_line() -> None:
    with redis_server() as server:
        sink = open_sink(address(f"{server.url}/journal?maxlen=500"))
        sent = lines(3)
        sink.deliver(sent)
        client = redis.Redis.from_url(server.url)
        read = [fields for _, fields in client.xrange("journal")]  # type: ignore[union-attr]
        assert [int(fields[b"id"]) for fields in read] == [line.id for line in sent]
        assert [fields[b"line"].decode() for fields in read] == [line.text for line in sent]

        sink.deliver(lines(3_000))
        assert client.xlen("journal") < 1_000  # type: ignore[operator]
        client.close()
    with pytest.raises(Unavailable):
        sink.deliver(lines(1))
    sink.close()


# --- HTTP ---------------------------------------------------------------------------------------
class Index:
    """Takes `_bulk` calls; `answer` may say something else, by the ids of the call."""

    def __init__(self) -> None:
        self.documents: dict[str, str] = {}
        self.requests: list[dict[str, Any]] = []
        self.answer: Callable[[list[str]], tuple[int, bytes] | None] = lambda numbers: None

    def take(self, headers: Any, path: str, body: bytes) -> tuple[int, bytes]:
        self.requests.append({"path": path, **{k.lower(): v for k, v in headers.items()}})
        texts = body.decode().splitlines()
        numbers = [json.loads(text)["index"]["_id"] for text in texts[::2]]
        if (said := self.answer(numbers)) is not None:
            return said
        self.documents.update(zip(numbers, texts[1::2], strict=True))
        items = [{"index": {"_id": each, "status": 201}} for each in numbers]
        return 200, json.dumps({"errors": False, "items": items}).encode()


@contextmanager
def serving(index: Index) -> Iterator[int]:
    wires: list[socket.socket] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            wires.append(self.connection)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, said = index.take(self.headers, self.path, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *args: Any) -> None:
            """Silence."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with answering(server):
        yield server.server_address[1]
    for wire in wires:
        # One that its client has left is closed already.
        with suppress(OSError):
            wire.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def index() -> Index:
    return Index()


@pytest.fixture
def sink(index: Index) -> Iterator[Any]:
    with serving(index) as port:
        opened = open_sink(address(f"http://writer:s%40crt@127.0.0.1:{port}/journal"))
        yield opened
        opened.close()


def test_index_has_a_document_for_each_entry_by_its_id(index: Index, sink: Any) -> None:
    sent = lines(3)
    sink.deliver(sent)
    sink.deliver(sent[1:])

    assert index.documents == {str(line.id): line.text for line in sent}
    [first, _] = index.requests
    assert (first["path"], first["content-type"]) == ("/journal/_bulk", "application/x-ndjson")
    # writer:s@crt
    assert first["authorization"] == "Basic d3JpdGVyOnNAY3J0"


def _items(numbers: list[str], status: int) -> tuple[int, bytes]:
    """The first is taken, the others are not."""
    items = [{"index": {"_id": numbers[0], "status": 201}}]
    items += [
        {"index": {"_id": number, "status": status, "error": {"reason": "why"}}}
        for number in numbers[1:]
    ]
    return 200, json.dumps({"errors": True, "items": items}).encode()


def test_refused_documents_are_named(index: Index, sink: Any) -> None:
    index.answer = lambda numbers: _items(numbers, 400)
    first, second, third = lines(3)
    with pytest.raises(Refused) as refused:
        sink.deliver([first, second, third])

    assert refused.value.errors.keys() == {second.id, third.id}
    assert "why" in refused.value.errors[second.id]


@pytest.mark.parametrize("status", [429, 503])
def test_documents_for_later_are_sent_again(index: Index, sink: Any, status: int) -> None:
    index.answer = lambda numbers: _items(numbers, status)
    with pytest.raises(Unavailable, match=str(status)):
        sink.deliver(lines(2))


def test_answers_that_are_no_success(index: Index, sink: Any, subtests: pytest.Subtests) -> None:
    for status, said, error in [
        (413, b"too large", Refused),
        (400, b"malformed", Refused),
        (401, b"who are you", Unavailable),
        (403, b"no", Unavailable),
        (404, b"no index", Unavailable),
        (429, b"later", Unavailable),
        (500, b"oh", Unavailable),
        (302, b"", Unavailable),
        (200, b"<html>", Unavailable),
        (200, b'{"errors":true,"items":[{"index":{"status":201}}]}', Unavailable),
        (200, b'{"errors":true}', Unavailable),
        (200, b"[]", Unavailable),
        (200, b"[" * 100_000, Unavailable),
        (200, b'{"errors":true,"items":[{"index":{"status":1e999}}]}', Unavailable),
        (200, b" " * (2**24 + 1), Unavailable),
    ]:
        with subtests.test(status=status, said=said):
            index.documents.clear()
            index.answer = lambda numbers, told=(status, said): told
            with pytest.raises(error):
                sink.deliver(lines(2))
            index.answer = lambda numbers: None
            sink.deliver(lines(1))
            assert len(index.documents) == 1


def test_server_that_is_away_is_tried_again_by_a_new_connection(index: Index) -> None:
    with serving(index) as port:
        sink = open_sink(address(f"http://127.0.0.1:{port}/journal"))
        sink.deliver(lines(1))
    with pytest.raises(Unavailable):
        sink.deliver(lines(2))
    sink.close()


def test_server_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.journal.sinks.bulk.TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sink = open_sink(address(f"http://127.0.0.1:{silent.getsockname()[1]}/journal"))
        with pytest.raises(Unavailable, match="timed out"):
            sink.deliver(lines(1))


# --- Kafka --------------------------------------------------------------------------------------
def test_topic_has_a_message_for_each_line() -> None:
    """librdkafka brings a cluster of three brokers for tests."""
    sink: Any = open_sink(address("kafka://nowhere:1/journal?test.mock.num.brokers=3"))
    sent = lines(300)
    sink.deliver(sent)
    too_large, fine = lines(1, text="x" * 2_000_000)[0], lines(302)[301]
    with pytest.raises(Refused) as refused:
        sink.deliver([too_large, fine])
    assert refused.value.errors.keys() == {too_large.id}

    brokers = sink._producer.list_topics("journal", timeout=10).brokers.values()
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": ",".join(f"{each.host}:{each.port}" for each in brokers),
            "group.id": "test",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["journal"])
    read: dict[str, str] = {}
    while len(read) < 301:
        for message in consumer.consume(301 - len(read), timeout=10):
            assert message.error() is None
            read[message.value().decode()] = message.key().decode()
    consumer.close()
    sink.close()
    assert read == {line.text: str(line.subject_id) for line in [*sent, fine]}


def test_cluster_that_is_away_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "kafka://127.0.0.1:1/journal?delivery.timeout.ms=300&linger.ms=0&log_level=0"
    sink = open_sink(address(url))
    with pytest.raises(Unavailable):
        sink.deliver(lines(2))
    sink.close()


# --- addresses ----------------------------------------------------------------------------------
def test_wrong_addresses_say_what_is_needed(subtests: pytest.Subtests) -> None:
    for text, match in [
        ("https://host/index", "NAME=ADDRESS"),
        ("Big=https://host/index", "NAME=ADDRESS"),
        ("a=ftp://host/x", "sink a: 'ftp://host/x' begins with none of file://, redis://, rediss:"),
        ("a=file://tmp/x", "sink a: 'file://tmp/x' .* write three slashes: file:///tmp/x"),
        ("a=file:///", "needs a folder"),
        ("a=redis://host/journal", "needs a database and a stream"),
        ("a=https://host", "needs an index"),
        ("a=https://host/a/b", "needs an index"),
        ("a=kafka://host:9092", "needs brokers and a topic"),
        ("a=file:///x a=file:///y", "two sinks are named a"),
    ]:
        with subtests.test(text=text), pytest.raises(ValueError, match=match):
            parse_sinks(text)


def test_addresses_are_shown_without_passwords() -> None:
    [sink] = parse_sinks("a=https://me:secret@host:9200/journal?token=hidden")
    assert sink.shown == "https://host:9200/journal"
    with pytest.raises(ValueError) as error:
        parse_sinks("https://me:secret@host:9200/journal")
    assert "secret" not in str(error.value)
    for wrong in ("me:secret@host", "me:a?secret@host", "host?token=secret"):
        with pytest.raises(ValueError, match="needs an index") as error:
            parse_sinks(f"a=https://{wrong}")
        assert "secret" not in str(error.value)
