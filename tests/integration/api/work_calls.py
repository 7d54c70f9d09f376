"""The calls by which a worker over REST takes jobs, keeps them and reports them."""

from __future__ import annotations

from typing import Any

from tests.integration.api.contract import ContractClient

JOBS = "/api/v1/jobs/"
HOLD, SETTLE, HEARTBEAT = (f"{JOBS}{path}/" for path in ("hold", "settle", "heartbeat"))
Held = dict[str, Any]


def named(job: Held, outcome: str = "", **more: Any) -> Held:
    """The job by its id and token, with what is said of it."""
    said = {"outcome": outcome} if outcome else {}
    return {"id": job["id"], "lease_token": job["lease_token"], **said, **more}


def hold(api: ContractClient, **fields: Any) -> dict[str, Any]:
    """The answer to pi-1, who asks for mail unless the fields say otherwise."""
    return answered(api, HOLD, {"types": ["mail"], **fields})


def settle(api: ContractClient, *outcomes: Held, **more: Any) -> list[Held]:
    return answered(api, SETTLE, {"outcomes": [*outcomes], **more})["results"]


def beat(api: ContractClient, *leases: Held) -> list[Held]:
    return answered(api, HEARTBEAT, {"leases": [*leases]})["leases"]


def answered(api: ContractClient, path: str, body: dict[str, Any]) -> Any:
    answer = api.post(path, {"worker": "pi-1", **body})
    assert answer.status_code == 200, answer.content
    return answer.json()
