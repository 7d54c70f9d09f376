"""Is this process alive, and may traffic be sent to it? Open to everybody, so without detail."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from datetime import datetime

from django.core.cache import cache
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from apps.common import clock
from apps.common.leases import BEAT_SILENCE, last_beat, turns
from apps.jobs.services import register
from taskplatform import beat

logger = logging.getLogger(__name__)


class Failing(Exception):
    """A request would not find what it needs: the part by name, and for the log what is wrong."""

    def __init__(self, part: str, why: str) -> None:
        super().__init__(why)
        self.part = part


class Readiness:
    """What a web process needs, and what only makes things slower while it is away.

    Without an answering database with every migration applied, a request fails; another node may
    do better. Without Redis, beat or workers every node answers all the same, and they are away
    for all nodes at once: refusing would take the last working part out of service, too.
    """

    def __init__(self) -> None:
        # Applied migrations stay applied while this code runs; reading them all anew for every
        # probe would cost more than most requests.
        self._migrated = False
        self._told: list[str] = []

    def degraded(self) -> list[str]:
        """The names of the parts that are away; the log tells more when there are others.

        Raises Failing when no request can be answered.
        """
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
                cursor.fetchone()
            if not self._is_migrated():
                raise Failing("migrations", "migrations are not applied; run manage.py migrate")
            away = self._away(clock.now())
        except Error as error:
            raise Failing("database", f"the database does not answer: {error}") from error
        if list(away) != self._told:
            self._told = list(away)
            told = "; ".join(f"{part}: {why}" for part, why in away.items())
            logger.warning("degraded: %s", told or "no longer")
        return list(away)

    @staticmethod
    def _away(now: datetime) -> dict[str, str]:
        looked = {part: look(now) for part, look in _PARTS.items()}
        return {part: why for part, why in looked.items() if why}

    def _is_migrated(self) -> bool:
        if not self._migrated:
            executor = MigrationExecutor(connection)
            self._migrated = not executor.migration_plan(executor.loader.graph.leaf_nodes())
        return self._migrated


def _cache(_now: datetime) -> str:
    probe = secrets.token_hex(8)
    cache.set(f"health:{probe}", probe, timeout=10)
    return "" if cache.get(f"health:{probe}") == probe else "it does not keep what it is given"


def _beat(now: datetime) -> str:
    last = last_beat(turns(beat.periods(), now))
    if last is None:
        return "no sweep has ever begun"
    return "" if now - last <= BEAT_SILENCE else f"no sweep has begun since {last}"


def _workers(now: datetime) -> str:
    return "" if register.alive(now) else "none is alive"


_PARTS: dict[str, Callable[[datetime], str]] = {
    "cache": _cache,
    "beat": _beat,
    "workers": _workers,
}

_readiness = Readiness()


@require_safe
@never_cache
def live(request: HttpRequest) -> JsonResponse:
    """200 as long as the process answers at all."""
    return JsonResponse({"status": "ok"})


@require_safe
@never_cache
def ready(request: HttpRequest) -> JsonResponse:
    """200 when requests are answered, with the parts that are away; 503 when none would be.

    `{"status": "ok"}`, `{"status": "degraded", "degraded": ["cache", "beat", "workers"]}` or
    `{"status": "unavailable", "failing": ["database"]}`. The log says more.
    """
    try:
        degraded = _readiness.degraded()
    except Failing as failing:
        logger.warning("not ready: %s", failing)
        return JsonResponse(
            {"status": "unavailable", "failing": [failing.part]},
            status=503,
            headers={"Retry-After": "5"},
        )
    if not degraded:
        return JsonResponse({"status": "ok"})
    return JsonResponse({"status": "degraded", "degraded": degraded})
