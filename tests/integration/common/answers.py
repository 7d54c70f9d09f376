"""Reading the answers of the API."""

from __future__ import annotations

import json
from typing import Any

KEYS = {"type", "title", "status", "detail", "instance", "code", "errors", "request_id"}


def problem_of(response: Any) -> dict[str, Any]:
    """The problem in this answer, after checking that it has the form of one."""
    assert response["Content-Type"] == "application/problem+json"
    problem: dict[str, Any] = json.loads(response.content)
    assert set(problem) == KEYS
    assert problem["status"] == response.status_code
    assert problem["type"] == f"urn:taskplatform:problem:{problem['code']}"
    assert problem["request_id"] == response["X-Request-Id"]
    assert problem["title"] and problem["detail"]
    return problem
