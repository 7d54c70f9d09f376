"""A flow with a step of each kind, and its pages."""

from __future__ import annotations

from typing import Any

from django.test import Client

from apps.flows.models import Flow
from apps.flows.services import flows
from tests.flows import job, jobs, ref, task, wait
from tests.pages import form_of, page_of

LIST = "/admin/flows/flow/"
STEPS = [
    job("list", context={"shop": ref("params", "shop"), "token": "s3cret-key"}),
    jobs("resize", ref("list", "photos"), at_least=95, unit="percent", max=20),
    task("check", quota=3, title="Check photos", needs=["resize"], within=7200, at_least=2),
    wait("gate", seconds=60, needs=["check"], when="always", optional=True),
    {**job("publish"), "if": {"step": "list", "path": "public", "equals": True}},
]
PARAMS = {
    "type": "object",
    "properties": {"shop": {"type": "string", "title": "Shop"}},
    "required": ["shop"],
}
WHOLE = {"params": PARAMS, "steps": STEPS}


def made(name: str = "night", definition: Any = WHOLE, **more: Any) -> Flow:
    return flows.put_flow(
        name=name, definition=definition, actor="admin:vera", **{"title": "Night round", **more}
    )


def page_url(row: Flow) -> str:
    return f"{LIST}{row.pk}/"


def edit(client: Client, row: Flow, **typed: str) -> Any:
    """The answer to the form of the flow with these fields typed anew."""
    form = form_of(page_of(client, row), "steps-was")
    return client.post(f"{LIST}{row.pk}/change/", {**form, "_save": "Save", **typed})
