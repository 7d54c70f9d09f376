"""The sink of an address, by its scheme."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from apps.journal.conf import SinkAddress
from apps.journal.sinks.base import Sink
from apps.journal.sinks.bulk import BulkSink
from apps.journal.sinks.files import FileSink
from apps.journal.sinks.kafka import KafkaSink
from apps.journal.sinks.stream import StreamSink

_KINDS: Mapping[str, Callable[[SinkAddress], Sink]] = {
    "file": FileSink,
    "redis": StreamSink,
    "rediss": StreamSink,
    "http": BulkSink,
    "https": BulkSink,
    "kafka": KafkaSink,
}


def open_sink(address: SinkAddress) -> Sink:
    """The sink, which connects at its first delivery; ImproperlyConfigured when a package is
    missing."""
    return _KINDS[address.parts.scheme](address)
