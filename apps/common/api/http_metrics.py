"""How many requests were answered, how, and in what time, as Prometheus reads it.

Each web process counts for itself. With several on one machine the folder that the environment
names in PROMETHEUS_MULTIPROC_DIR has what all of them count, so that each answers for all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache

from django.http import HttpRequest
from django.urls import URLPattern, URLResolver, get_resolver
from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import Metric
from prometheus_client.multiprocess import MultiProcessCollector

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
# Files, and what no address fits.
OTHER = "other"
STATUSES = ("2xx", "3xx", "4xx", "5xx")
# The upper bounds (s) of the histogram.
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_API = "api/v1/"
_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")

# The time of their making would be a series more for each.
disable_created_metrics()  # type: ignore[no-untyped-call]
_counted = CollectorRegistry()
_requests = Counter(
    "taskplatform_http_requests",
    "Answers of the web processes of this machine since they began",
    ["route", "status"],
    registry=_counted,
)
_seconds = Histogram(
    "taskplatform_http_request_seconds",
    "The time from a request, once it is read, to its answer",
    ["route"],
    buckets=BOUNDS,
    registry=_counted,
)


def count(request: HttpRequest, status: int, seconds: float) -> None:
    """Count the answer to the request, with the status, which took so long."""
    route = OTHER
    if request.resolver_match is not None:
        route = name_of(request.resolver_match.route)
    _seconds.labels(route).observe(seconds)
    _requests.labels(route, f"{status // 100}xx").inc()


def collect() -> Iterator[Metric]:
    """The counted metrics; those without a count yet are 0."""
    _begin()
    found = _counted
    if SHARED_FOLDER in os.environ:
        found = CollectorRegistry()
        MultiProcessCollector(found)  # type: ignore[no-untyped-call]
    return iter(found.collect())


@cache
def _begin() -> None:
    routes = {name_of(route) for route in _routes(get_resolver(), "")}
    for route in (*sorted(routes), OTHER):
        _seconds.labels(route)
        for status in STATUSES:
            _requests.labels(route, status)


def _routes(resolver: URLResolver, prefix: str) -> Iterator[str]:
    for each in resolver.url_patterns:
        route = f"{prefix}{each.pattern}"
        if isinstance(each, URLPattern):
            yield route
        else:
            yield from _routes(each, route)


@cache
def name_of(route: str) -> str:
    """An address of the API, such as `/api/v1/jobs/{number}/`; of others the first part."""
    if route.startswith(_API):
        # The address as the OpenAPI document writes it.
        return "/" + _PARAMETER.sub(r"{\1}", route).replace("{pk}", "{id}")
    return "/" + "".join(route.partition("/")[:2])
