"""The log of a job over REST: workers send it with heartbeats and reports, and others read on."""

from __future__ import annotations

from typing import Any

import pytest

from apps.common.masking import MASK
from tests.frozen import FrozenClock
from tests.integration.api.contract import ApiFor, ContractClient
from tests.jobs import job_type, jobs
from tests.masks import CODE, PRIVATE_KEY

pytestmark = [pytest.mark.django_db, pytest.mark.both]
JOBS = "/api/v1/jobs/"
OWN_TIME = "2026-03-02T08:59:59.500Z "


@pytest.fixture
def held(api: ContractClient, frozen_clock: FrozenClock) -> dict[str, Any]:
    job_type("mail")
    jobs(1)
    answer = api.post(f"{JOBS}hold/", {"worker": "pi-1", "types": ["mail"]})
    [job] = answer.json()["jobs"]
    return {"id": job["id"], "lease_token": job["lease_token"]}


def beat(api: ContractClient, job: dict[str, Any], *log: Any, **more: Any) -> Any:
    body = {"worker": "pi-1", "leases": [{**job, "log": [*log], **more}]}
    return api.post(f"{JOBS}heartbeat/", body)


def settle(api: ContractClient, job: dict[str, Any], **more: Any) -> Any:
    return api.post(f"{JOBS}settle/", {"worker": "pi-1", "outcomes": [{**job, **more}]})


def read(api: ContractClient, job: dict[str, Any], **query: Any) -> Any:
    return api.get(f"{JOBS}{job['id']}/log/", **query)


def test_lines_come_with_heartbeats_and_the_report_and_are_read_on(
    api: ContractClient, held: dict[str, Any]
) -> None:
    assert read(api, held).json() == {
        "attempts": [],
        "after": "",
        "more": False,
        "status": "running",
    }
    for _repeat in range(2):
        assert beat(api, held, "one", f"{OWN_TIME}two\nof two", log_at=0).status_code == 200
    first = read(api, held).json()
    assert first["attempts"] == [
        {
            "attempt": 1,
            "hold": 1,
            "lines": [
                {"at": "2026-03-02T09:00:00Z", "text": "one"},
                {"at": "2026-03-02T08:59:59.500000Z", "text": "two\nof two"},
            ],
            "left_out": 0,
        }
    ]
    end = {"outcome": "succeeded", "log": ["two", "three"], "log_at": 1, "log_left_out": 7}
    for _repeat in range(2):
        assert settle(api, held, **end).json()["results"][0]["ok"]
    then = read(api, held, after=first["after"]).json()
    [rest] = then["attempts"]
    assert [line["text"] for line in rest["lines"]] == ["three"]
    assert (rest["left_out"], then["status"]) == (7, "succeeded")
    again = read(api, held, after=then["after"]).json()
    assert (again["attempts"], again["after"]) == ([], then["after"])
    # Nothing more is taken of an attempt that has ended.
    assert not beat(api, held, "late").json()["leases"][0]["ok"]
    assert len(read(api, held).json()["attempts"][0]["lines"]) == 3


def test_a_long_log_is_read_in_parts(api: ContractClient, held: dict[str, Any]) -> None:
    for number in range(120):
        beat(api, held, f"{number} {'x' * 400}")
    seen: list[str] = []
    answer = {"after": "", "more": True}
    rounds = 0
    while answer["more"]:
        answer = read(api, held, after=answer["after"]).json()
        seen += [line["text"].split()[0] for log in answer["attempts"] for line in log["lines"]]
        rounds += 1
    assert seen == [str(number) for number in range(120)]
    assert rounds == 2


def test_what_no_log_can_hold_is_refused_or_made_harmless(
    api: ContractClient, held: dict[str, Any], subtests: pytest.Subtests
) -> None:
    cases = (
        ({"log": [7]}, "is not a string"),
        ({"log": "text"}, "is not a list"),
        ({"log_at": -1}, "is too small"),
        ({"log": ["a\x00"]}, "NUL characters"),
        ({"log": ["\ud800"]}, "surrogates"),
        ({"log": ["x" * 300_000]}, "bytes"),
    )
    for wrong, said in cases:
        with subtests.test(wrong=str(wrong)[:20]):
            answer = api.post(
                f"{JOBS}heartbeat/", {"worker": "pi-1", "leases": [{**held, **wrong}]}
            )
            assert answer.status_code in (400, 413)
            assert said in answer.json()["detail"]
    for place in ("x", "1", "1.x", "-1.0"):
        assert read(api, held, after=place).status_code == 400
    assert read(api, held, after=f"{2**63 - 1}.{2**63 - 1}").json()["attempts"] == []
    assert beat(api, held, "a\x1b[2J", "", "y" * 200_000).status_code == 200
    first, empty, long = read(api, held).json()["attempts"][0]["lines"]
    assert (first["text"], empty["text"]) == ("a\\x1b[2J", "")
    assert len(long["text"]) < 8_100


def test_secrets_are_shown_to_keys_with_payload(
    api: ContractClient, api_for: ApiFor, held: dict[str, Any]
) -> None:
    beat(api, held, "password=s3cr3t")

    def shown(*scopes: str) -> str:
        [log] = read(api_for(scopes=scopes), held).json()["attempts"]
        return log["lines"][0]["text"]

    assert shown("read") == f"password={MASK}"
    assert shown("read", "payload") == "password=s3cr3t"
    for terms in ({"job_types": ["fax"]}, {"executors": ["uid_bob"]}):
        assert read(api_for(scopes=["read"], **terms), held).status_code == 404


def test_private_key_is_masked_from_whichever_of_its_lines_the_log_is_read(
    api: ContractClient, held: dict[str, Any], api_for: ApiFor
) -> None:
    """Each line in a part of its own, as one may come with a heartbeat."""
    reader = api_for(scopes=["read"])
    beat(api, held, "before")
    place = read(api, held).json()["after"]
    for line in PRIVATE_KEY:
        beat(api, held, line)
    beat(api, held, "behind")

    def said(client: ContractClient, after: str) -> list[str]:
        attempts = read(client, held, after=after).json()["attempts"]
        return [line["text"] for log in attempts for line in log["lines"]]

    shown = [MASK if line in CODE else line for line in PRIVATE_KEY]
    assert said(reader, "") == ["before", *shown, "behind"]
    hold, _dot, part = place.partition(".")
    for number in range(len(PRIVATE_KEY)):
        after = f"{hold}.{int(part) + number}"
        assert said(reader, after) == [*shown[number:], "behind"]
    assert said(api, "")[1:-1] == [*PRIVATE_KEY]
