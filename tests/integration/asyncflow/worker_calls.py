"""Calls of one dialect, as the tests write them."""

from __future__ import annotations

import json
from typing import Any

from django.test import Client

from apps.asyncflow.dialects import BY_NAME, Dialect
from tests.integration.asyncflow.replay import basic


class Calls:
    """Calls of a dialect with one key by the words of snake_case, whatever the dialect has."""

    def __init__(self, name: str, key: str | None, **headers: str) -> None:
        self.dialect: Dialect = BY_NAME[name]
        self._client = Client()
        self._headers = {**({"Authorization": basic(key)} if key else {}), **headers}

    def raw(self, call: str, method: str = "", body: str | bytes = "", **query: Any) -> Any:
        """The answer of the call, by its first method unless another one is named."""
        route = next(each for each in self.dialect.routes if each.call == call)
        return self._client.generic(
            (method or route.methods[0]).upper(),
            f"{self.dialect.address}/{route.path}",
            body,
            "application/json",
            headers=self._headers,
            query_params={self.dialect.spelled(name): value for name, value in query.items()},
        )

    def ask(self, call: str, values: dict[str, Any] | None = None, **query: Any) -> tuple[int, Any]:
        """The code of the answer and what it answers."""
        spelled = {self.dialect.spelled(name): value for name, value in (values or {}).items()}
        answer = self.raw(call, body=json.dumps(spelled) if values else "", **query)
        assert answer.status_code == 200, answer.content
        found: dict[str, Any] = answer.json()
        code, _message = found.pop("code"), found.pop("msg")
        found = (found.pop("result") or {}) if self.dialect.envelope else found
        return code, next(iter(found.values()), None)

    def create(self, **values: Any) -> str:
        code, name = self.ask("create", {"task_type": "lark", **values})
        assert code == 0
        return str(name)

    def hold(self, type_: str = "lark", limit: int = 100) -> list[dict[str, Any]]:
        """The held tasks by the words of snake_case."""
        code, tasks = self.ask("hold", task_type=type_, limit=limit)
        assert code == 0
        return [self.words(task) for task in tasks]

    def set(self, task_id: str, state: str, **values: Any) -> int:
        """The code of the answer to a report: waiting, running, succeeded or failed."""
        number = self.dialect.states[("waiting", "running", "succeeded", "failed").index(state)]
        return self.ask("set", {"task_id": task_id, "status": number, **values})[0]

    def words(self, task: dict[str, Any]) -> dict[str, Any]:
        known = [*self.dialect.task(dict.fromkeys(_WORDS, None))]
        return {word: task[name] for word, name in zip(_WORDS, known, strict=True)}


_WORDS = (
    *("user_id", "task_id", "task_type", "task_stage", "status", "priority", "crt_retry_num"),
    *("max_retry_num", "max_retry_interval", "schedule_log", "task_context", "order_time"),
    *("create_time", "modify_time"),
)
