"""The broker on Redis: kombu's, with workers that read on after Redis has stood still."""

from __future__ import annotations

from typing import Any

from kombu.transport import redis, virtual


class QoS(redis.QoS):
    """The messages that a worker has, as many as it may have at once."""

    def ack(self, delivery_tag: Any) -> None:
        """Acknowledge a message; its place is free even when Redis does not answer.

        Kombu counts it on, and reads nothing any more once no place is left. What Redis keeps of it
        comes back in an hour, and has expired by then.
        """
        try:
            super().ack(delivery_tag)
        except Exception:
            virtual.QoS.ack(self, delivery_tag)
            raise


class Channel(redis.Channel):
    """Kombu's channel with these places."""

    QoS = QoS


class Transport(redis.Transport):
    """Kombu's transport with this channel."""

    Channel = Channel
