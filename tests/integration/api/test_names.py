"""Names and numbers that nothing has, and names that are taken. S0.2, S0.5."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.api.contract import ContractClient, mistakes
from tests.integration.api.world import checksum

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.usefixtures("world")]

BASE = "/api/v1/"
NUMBERS = ["0", "999999", "-1", "1.0", "x", "9223372036854775808", "9" * 4000, "9" * 5000, "１"]
OPEN = {"schema": {"type": "object", "properties": {"a": {}}}}
TASK = {"title": "Check the shelf", "executor": "uid_alice", "status": "active"}
REASON = {"reason": "Not needed"}
# Twins by case, blank and accent are other names, on every database.
UNKNOWN: list[tuple[str, list[str], list[tuple[str, str, Any]]]] = [
    (
        "once-tasks/",
        NUMBERS,
        [
            ("GET", "", None),
            ("PATCH", "", {"priority": 1}),
            ("PUT", "", TASK),
            ("DELETE", "", None),
        ],
    ),
    ("dispatches/", NUMBERS, [("GET", "", None), ("POST", "cancel/", REASON)]),
    (
        "jobs/",
        NUMBERS,
        [("GET", "", None), ("GET", "journal/", None), ("POST", "cancel/", REASON)],
    ),
    (
        "executors/",
        ["uid_nobody", "UID_alice", "uid_alice%20", "uid_%C3%A1lice", "x"],
        [
            ("GET", "", None),
            ("PATCH", "", {}),
            ("PUT", "", {"enabled": True}),
            ("GET", "members/", None),
            ("POST", "members/", {}),
        ],
    ),
    (
        "templates/",
        ["nothing", "Photo-check", "photo-check%20", "%20photo-check", "ph%C3%B3to-check", "%00"],
        [("GET", "", None)],
    ),
]


def test_what_is_unknown_is_not_found(api: ContractClient, subtests: pytest.Subtests) -> None:
    """S0.3, S0.29: ids beyond 64 bits, too; nothing is changed, and the answer stays short."""
    before = checksum()
    for path, names, calls in UNKNOWN:
        for name in names:
            with subtests.test(path, name=name[:30]):
                for method, action, body in calls:
                    answer = api.request(method, f"{BASE}{path}{name}/{action}", body)
                    found = (answer.status_code, answer.json()["code"])
                    assert found == (404, "not_found"), (method, action)
                    assert len(answer.json()["detail"]) < 300
    assert checksum() == before


def test_taken_name_is_refused(api: ContractClient, subtests: pytest.Subtests) -> None:
    """POST makes new rows only; a twin by case has another name."""
    before = checksum()
    for path, name, twin, fields, instead in (
        ("executors/", "uid_alice", "uid_Alice", {"title": "Second"}, "edit it instead"),
        ("templates/", "photo-check", "Photo-check", OPEN, "PUT makes its next version"),
        ("job-types/", "mail", "Mail", {}, f"change it by PATCH {BASE}job-types/mail/."),
    ):
        with subtests.test(path):
            answer = api.post(f"{BASE}{path}", {"name": name, **fields})

            assert mistakes(answer, 409) == ["name"]
            assert checksum() == before
            assert instead in answer.json()["detail"]
            assert api.post(f"{BASE}{path}", {"name": twin, **fields}).status_code == 201
            before = checksum()
