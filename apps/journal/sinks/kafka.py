"""A Kafka topic: `kafka://host1:9092,host2:9092/topic?security.protocol=ssl`.

What follows the question mark goes to librdkafka as it is. Entries of one subject stay in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, unquote

from django.core.exceptions import ImproperlyConfigured

from apps.journal.conf import SinkAddress
from apps.journal.sinks.base import TIMEOUT_SECONDS, Line, Refused, Unavailable


class KafkaSink:
    """A producer that repeats nothing by itself; each line is acknowledged by all replicas."""

    def __init__(self, address: SinkAddress) -> None:
        try:
            import confluent_kafka
        except ImportError as error:
            raise ImproperlyConfigured(
                f"JOURNAL_SINKS: sink {address.name} needs the package confluent-kafka; install it "
                "in the environment of the platform."
            ) from error
        parts = address.parts
        self._topic = unquote(parts.path.strip("/"))
        self._exception = confluent_kafka.KafkaException
        error_codes: Any = confluent_kafka.KafkaError
        self._for_good = {error_codes.MSG_SIZE_TOO_LARGE, error_codes.INVALID_RECORD}
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": parts.netloc,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "compression.type": "lz4",
                "delivery.timeout.ms": int(TIMEOUT_SECONDS * 1_000),
                **dict(parse_qsl(parts.query)),
            }
        )

    def deliver(self, lines: Sequence[Line]) -> None:
        failed: dict[int, Any] = {}
        acknowledged: set[int] = set()

        def note(number: int, error: Any, _message: Any = None) -> None:
            if error is None:
                acknowledged.add(number)
            else:
                failed[number] = error

        for line in lines:
            try:
                self._producer.produce(
                    self._topic,
                    key=str(line.subject_id),
                    value=line.text,
                    on_delivery=partial(note, line.id),
                )
            except BufferError as error:
                raise Unavailable(str(error)) from error
            except self._exception as error:
                note(line.id, error.args[0])
        self._producer.flush(2 * TIMEOUT_SECONDS)
        refused = {
            number: str(error) for number, error in failed.items() if error.code() in self._for_good
        }
        if others := [error for number, error in failed.items() if number not in refused]:
            raise Unavailable(str(others[0]))
        if len(acknowledged) + len(refused) < len(lines):
            raise Unavailable("Kafka did not acknowledge every line in time.")
        if refused:
            raise Refused(f"{len(refused)} of {len(lines)} lines", refused)

    def close(self) -> None:
        self._producer.purge()
