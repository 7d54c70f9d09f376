"""A Redis stream: `redis://host:6379/0/journal?maxlen=1000000`.

Redis removes what is beyond `maxlen`, read or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qs, unquote

import redis

from apps.journal.conf import SinkAddress
from apps.journal.sinks.base import TIMEOUT_SECONDS, Line, Unavailable

MAX_LENGTH = 1_000_000


class StreamSink:
    """Entries as `id` and `line`; the ids of the stream are its own, as late entries need."""

    def __init__(self, address: SinkAddress) -> None:
        parts = address.parts
        _, database, stream = parts.path.split("/")
        [length] = parse_qs(parts.query).get("maxlen", [str(MAX_LENGTH)])
        self._stream = unquote(stream)
        self._length = int(length)
        self._redis = redis.Redis.from_url(
            f"{parts.scheme}://{parts.netloc}/{database}",
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS / 3,
        )

    def deliver(self, lines: Sequence[Line]) -> None:
        pipeline = self._redis.pipeline(transaction=False)
        for line in lines:
            pipeline.xadd(
                self._stream,
                {"id": line.id, "line": line.text},
                maxlen=self._length,
                approximate=True,
            )
        try:
            pipeline.execute()
        except redis.RedisError as error:
            raise Unavailable(str(error)) from error

    def close(self) -> None:
        self._redis.close()
