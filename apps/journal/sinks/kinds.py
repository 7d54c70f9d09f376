"""The sink of an address, by its scheme."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from apps.journal.conf import SinkAddress
from apps.journal.sinks.base import Sink
from apps.journal.sinks.bulk import BulkSink
from apps.journal.sinks.files import FileSink
from apps.journal.sinks.kafka import KafkaSink


def _stream(address: SinkAddress) -> Sink:
    # Redis takes 5 MB of a process; one that is without it loads none.
    from apps.journal.sinks.stream import StreamSink

    return StreamSink(address)


_KINDS: Mapping[str, Callable[[SinkAddress], Sink]] = {
    "file": FileSink,
    "redis": _stream,
    "rediss": _stream,
    "http": BulkSink,
    "https": BulkSink,
    "kafka": KafkaSink,
}


def open_sink(address: SinkAddress) -> Sink:
    """The sink, which connects at its first delivery; ImproperlyConfigured when a package is
    missing."""
    return _KINDS[address.parts.scheme](address)
