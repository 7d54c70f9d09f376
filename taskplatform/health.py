"""Is this process alive, and may traffic be sent to it? Open to everybody, so without detail."""

from __future__ import annotations

import logging
import secrets

from django.core.cache import cache
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

logger = logging.getLogger(__name__)


class Readiness:
    """What a request needs: an answering database with every migration applied, and the cache."""

    def __init__(self) -> None:
        # Applied migrations stay applied while this code runs; reading them all anew for every
        # probe would cost more than most requests.
        self._migrated = False

    def failing(self) -> str:
        """What is missing, for the log; "" when nothing is."""
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
                cursor.fetchone()
            if not self._is_migrated():
                return "migrations are not applied; run manage.py migrate"
        except Error as error:
            return f"the database does not answer: {error}"
        probe = secrets.token_hex(8)
        cache.set(f"health:{probe}", probe, timeout=10)
        if cache.get(f"health:{probe}") != probe:
            return "the cache does not keep what it is given"
        return ""

    def _is_migrated(self) -> bool:
        if not self._migrated:
            executor = MigrationExecutor(connection)
            self._migrated = not executor.migration_plan(executor.loader.graph.leaf_nodes())
        return self._migrated


_readiness = Readiness()


@require_safe
@never_cache
def live(request: HttpRequest) -> JsonResponse:
    """200 as long as the process answers at all."""
    return JsonResponse({"status": "ok"})


@require_safe
@never_cache
def ready(request: HttpRequest) -> JsonResponse:
    """200 when a request would find all it needs, 503 otherwise; the log says what is missing."""
    failing = _readiness.failing()
    if failing:
        logger.warning("not ready: %s", failing)
        return JsonResponse({"status": "unavailable"}, status=503, headers={"Retry-After": "5"})
    return JsonResponse({"status": "ok"})
