"""Liveness and readiness of this process. Open to everybody, so without detail."""

from __future__ import annotations

import logging
import secrets

from django.core.cache import cache
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from apps.reports.services.fact_sheet import FactSheet, current_sheet

logger = logging.getLogger(__name__)


class NotReady(Exception):
    """This process cannot answer requests: the missing part, and the reason for the log."""

    def __init__(self, part: str, why: str) -> None:
        super().__init__(why)
        self.part = part


class Readiness:
    """The parts that requests need, and those whose loss only makes the platform slower.

    Without a database with all migrations, requests fail here, while another node may answer.
    Without Redis, beat or workers, every node still answers. They are lost for all nodes at once,
    so refusing traffic would stop what still works.
    """

    def __init__(self) -> None:
        # Migrations stay applied while this code runs, and reading them for each probe would cost
        # more than most requests.
        self._migrated = False
        self._logged: list[str] = []

    def degraded(self) -> list[str]:
        """The names of the missing parts; a change is logged with the reasons.

        Raises NotReady when no request can be answered.
        """
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
                cursor.fetchone()
            if not self._is_migrated():
                raise NotReady("migrations", "migrations are not applied; run manage.py migrate")
            missing = _missing()
        except Error as error:
            raise NotReady("database", f"the database does not answer: {error}") from error
        if list(missing) != self._logged:
            self._logged = list(missing)
            reasons = "; ".join(f"{part}: {reason}" for part, reason in missing.items())
            logger.warning("degraded: %s", reasons or "no longer")
        return list(missing)

    def _is_migrated(self) -> bool:
        if not self._migrated:
            executor = MigrationExecutor(connection)
            self._migrated = not executor.migration_plan(executor.loader.graph.leaf_nodes())
        return self._migrated


def _missing() -> dict[str, str]:
    """The missing parts with the reasons."""
    status = current_sheet()
    reasons = {"cache": _cache(), "beat": _beat(status), "workers": _workers(status)}
    return {part: reason for part, reason in reasons.items() if reason}


def _cache() -> str:
    probe = secrets.token_hex(8)
    cache.set(f"health:{probe}", probe, timeout=10)
    return "" if cache.get(f"health:{probe}") == probe else "it does not keep what it is given"


def _beat(status: FactSheet) -> str:
    if not status.is_beat_late:
        return ""
    last = status.last_beat
    return "no sweep has ever begun" if last is None else f"no sweep has begun since {last}"


def _workers(status: FactSheet) -> str:
    return "" if status.live_workers else "none is alive"


_readiness = Readiness()


@require_safe
@never_cache
def live(request: HttpRequest) -> JsonResponse:
    """200 as long as the process answers at all."""
    return JsonResponse({"status": "ok"})


@require_safe
@never_cache
def ready(request: HttpRequest) -> JsonResponse:
    """200 when requests are answered, with the missing parts; 503 when they are not.

    `{"status": "ok"}`, `{"status": "degraded", "degraded": ["cache", "beat", "workers"]}` or
    `{"status": "unavailable", "failing": ["database"]}`. The log has the reasons.
    """
    try:
        degraded = _readiness.degraded()
    except NotReady as error:
        logger.warning("not ready: %s", error)
        return JsonResponse(
            {"status": "unavailable", "failing": [error.part]},
            status=503,
            headers={"Retry-After": "5"},
        )
    if not degraded:
        return JsonResponse({"status": "ok"})
    return JsonResponse({"status": "degraded", "degraded": degraded})
