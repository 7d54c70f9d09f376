"""Where the journal can be sent: files, a Redis stream, an HTTP index, Kafka."""

from apps.journal.sinks.base import Line, Refused, Sink, Unavailable
from apps.journal.sinks.kinds import open_sink

__all__ = ["Line", "Refused", "Sink", "Unavailable", "open_sink"]
