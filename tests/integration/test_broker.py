"""The messages to workers: in Redis, and in a folder on a machine without it."""

from __future__ import annotations

import threading
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from kombu import Connection, Consumer, Queue
from kombu.exceptions import ChannelError

from tests.servers import redis_server

MESSAGES = 1_000
WAIT_SECONDS = 60.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "queue"
    made.mkdir()
    return made


def connected(folder: Path) -> Connection:
    options = {
        "data_folder_in": str(folder),
        "data_folder_out": str(folder),
        "control_folder": str(folder / "control"),
    }
    return Connection(
        "filesystem://localhost",
        transport="taskplatform.broker:Transport",
        transport_options=options,
    )


def channel(folder: Path) -> Any:
    return connected(folder).channel()


class ReadWhileWritten:
    """A message that another process tries to read while it is written."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def __json__(self) -> dict[str, int]:
        with pytest.raises(Empty):
            self._reader._get("fast")
        return {"number": 1}


def test_half_a_message_is_none_yet(folder: Path) -> None:
    """A worker that read the file between its creation and its content ended."""
    channel(folder)._put("fast", ReadWhileWritten(channel(folder)))
    assert channel(folder)._get("fast") == {"number": 1}


def test_consumer_gets_what_its_queues_hold_and_leaves_the_rest(folder: Path) -> None:
    got: list[str] = []
    with connected(folder) as connection:
        for queue in ("slow", "look", "flows.look", "fast"):
            connection.Producer().publish(queue, routing_key=queue)
        mine = [Queue("fast"), Queue("flows.look")]
        with connection.Consumer(mine, no_ack=True, callbacks=[lambda body, _: got.append(body)]):
            for _ in mine:
                connection.drain_events(timeout=WAIT_SECONDS)
            with pytest.raises(TimeoutError):
                connection.drain_events(timeout=0.1)

    assert sorted(got) == ["fast", "flows.look"]
    left = (file.name.partition(".")[2] for file in folder.glob("*.msg"))
    assert sorted(left) == ["look.msg", "slow.msg"]


def test_every_message_comes_once_whoever_reads(folder: Path) -> None:
    received: list[int] = []

    def read_all() -> None:
        reader = channel(folder)
        while len(received) < 2 * MESSAGES:
            try:
                received.append(reader._get("fast")["number"])
            except Empty:
                continue

    writers = [threading.Thread(target=_put_all, args=(folder, n)) for n in range(2)]
    readers = [threading.Thread(target=read_all, daemon=True) for _ in range(2)]
    for each in (*writers, *readers):
        each.start()
    for each in (*writers, *readers):
        each.join(WAIT_SECONDS)
    assert sorted(received) == sorted([*range(MESSAGES)] * 2)
    assert not list(folder.glob("*.msg"))


def _put_all(folder: Path, _writer: int) -> None:
    mine = channel(folder)
    for number in range(MESSAGES):
        mine._put("fast", {"number": number, "padding": "x" * 2_000})


def test_messages_come_in_the_order_in_which_they_were_sent(folder: Path) -> None:
    both = channel(folder)
    for number in range(20):
        both._put("fast", {"number": number})
        both._put("slow", {"number": -number})
    assert [both._get("fast")["number"] for _ in range(20)] == [*range(20)]


def test_queues_that_are_bound_at_once_are_all_known(folder: Path) -> None:
    (folder / "control").mkdir()
    barrier = threading.Barrier(8)

    def bind(number: int) -> None:
        mine = channel(folder)
        barrier.wait(WAIT_SECONDS)
        mine._queue_bind("work", f"key{number}", "", f"queue{number}")
        mine.get_table("work")

    binders = [threading.Thread(target=bind, args=(number,)) for number in range(8)]
    for binder in binders:
        binder.start()
    for binder in binders:
        binder.join(WAIT_SECONDS)
    bound = channel(folder).get_table("work")
    assert sorted(each.queue for each in bound) == [f"queue{number}" for number in range(8)]


def test_missing_folder_is_reported(folder: Path) -> None:
    there = channel(folder)
    folder.rmdir()
    with pytest.raises(ChannelError, match="cannot be written to"):
        there._put("fast", {})


def test_consumer_reads_on_after_redis_has_stood_still() -> None:
    """F12: it may have one message at a time, and cannot say that it is done with the first."""
    with redis_server() as server:
        connection = Connection(
            server.url,
            transport="taskplatform.redis_broker:Transport",
            transport_options={"socket_timeout": 0.2, "max_retries": 0},
        )
        got: list[Any] = []
        with connection, Consumer(connection, Queue("sweeps"), on_message=got.append) as consumer:
            consumer.qos(prefetch_count=1)
            for number in (1, 2):
                connection.SimpleQueue("sweeps").put(number)
            connection.drain_events(timeout=WAIT_SECONDS)

            server.pause()
            with pytest.raises(connection.connection_errors):
                got[0].ack()
            server.resume()

            connection.drain_events(timeout=WAIT_SECONDS)
            assert [message.payload for message in got] == [1, 2]
