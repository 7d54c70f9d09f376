"""The dialects of asyncflow as data: names, addresses, envelopes, numbers of states, units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.asyncflow.conf import DIALECTS
from apps.jobs.rules import transitions as t

# The addresses of a dialect begin with this and its name.
PREFIX = "/asyncflow/"
# The key in the environ of a request: whether it came to a port of ASYNCFLOW_PORTS.
OWN_PORT = "taskplatform.own_port"
# The codes with which asyncflow's servers answer, whatever the HTTP status.
OK, INPUT, BODY, UNKNOWN_TASK, CREATE = 0, 8020, 8021, 8035, 8037
LIST, UNKNOWN_TYPE, SET, CONFIG, REGISTER, REGISTERED = 8038, 8039, 8041, 8045, 8047, 8048

GET, POST = ("get",), ("post",)
BOTH = GET + POST

# The words of a task and of the settings of a type, in the order in which they are written.
_TASK = (
    *("user_id", "task_id", "task_type", "task_stage", "status", "priority", "crt_retry_num"),
    *("max_retry_num", "max_retry_interval", "schedule_log", "task_context", "order_time"),
    *("create_time", "modify_time"),
)
_SETTINGS = (
    *("task_type", "schedule_limit", "schedule_interval", "max_processing_time"),
    *("max_retry_num", "retry_interval", "max_retry_interval", "create_time", "modify_time"),
)


@dataclass(frozen=True)
class Route:
    """One address: the call that it is for, its methods, and the key of the answer."""

    call: str
    path: str
    methods: tuple[str, ...]
    key: str = ""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How one family of workers speaks.

    `states` are its numbers of waiting, running, succeeded and failed tasks. `second` is how many
    of its units of time one second has. `envelope`: the answer stands in `result`. `id_form` is the
    form of a task id. `delays`: the order time of a failure says when to try again. `late_is_ok`:
    its workers die of a refusal, so a late report gets code 0, and changes nothing all the same.
    `list_holds`: it has workers that take their work from the list of waiting tasks. `own_base` is
    the path before the routes that its clients know, at a port of its own.
    """

    name: str
    camel: bool
    context: str
    left_out: frozenset[str] = frozenset()
    states: tuple[int, int, int, int] = (1, 2, 3, 4)
    second: int = 1
    envelope: bool = False
    id_form: str = "{job}_{type}_1"
    delays: bool = True
    late_is_ok: bool = False
    list_holds: bool = False
    own_base: str = ""
    routes: tuple[Route, ...]

    @property
    def address(self) -> str:
        return f"{PREFIX}{self.name}"

    def spelled(self, word: str) -> str:
        if word == "task_context":
            return self.context
        first, *others = word.split("_")
        return first + "".join(map(str.capitalize, others)) if self.camel else word

    def spelled_all(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {self.spelled(word): value for word, value in values.items()}

    def task(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {self.spelled(word): values[word] for word in _TASK}

    def settings(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {self.spelled(word): values[word] for word in _SETTINGS if word not in self.left_out}

    def answer(self, key: str, value: Any) -> dict[str, Any]:
        """The answer of a call that succeeded."""
        found = {key: value} if key else {}
        if self.envelope:
            return {"msg": "ok", "code": OK, "result": found or None}
        return {"code": OK, "msg": "ok", **found}

    def refusal(self, code: int, message: str, key: str = "") -> dict[str, Any]:
        """The answer of a call that failed: always with a code, without which workers take it for
        success."""
        if self.envelope:
            return {"msg": message, "code": code, "result": None}
        return {"code": code, "msg": message, **({key: None} if key else {})}

    def number(self, status: str) -> int:
        """The dialect's number for the status of a job."""
        waiting, running, succeeded, failed = self.states
        return {
            t.RUNNING: running,
            t.SUCCEEDED: succeeded,
            t.FAILED: failed,
            t.CANCELLED: failed,
        }.get(status, waiting)

    def statuses(self, number: int) -> tuple[str, ...]:
        """The statuses of jobs that have this number; none for no number of a state."""
        return tuple(status for status in t.STATUSES if self.number(status) == number)


_GO_V1 = Dialect(
    name="g2",
    camel=False,
    context="context",
    routes=(
        Route("settings", "v1/get_task_schedule_cfg_list", GET, "task_schedule_cfg_list"),
        Route("settings", "v1/get_config_list", GET, "task_schedule_cfg_list"),
        Route("hold", "v1/hold_tasks", POST, "task_list"),
        Route("set", "v1/set_task", POST),
        Route("create", "v1/create_task", POST, "task_id"),
        Route("get", "v1/get_task", GET, "task_data"),
        Route("list", "v1/get_task_list", GET, "task_list"),
        Route("count", "v1/get_task_counts_by_type", GET, "counts"),
        Route("register", "v1/register_task", POST),
        Route("ping", "v1/ping", GET),
    ),
)
_GO = Dialect(
    name="g1",
    camel=True,
    context="context",
    left_out=frozenset({"retry_interval"}),
    list_holds=True,
    routes=(
        Route("settings", "get_task_schedule_cfg_list", GET, "scheduleCfgList"),
        Route("hold", "hold_tasks", POST, "taskList"),
        Route("set", "set_task", POST),
        Route("create", "create_task", POST, "taskId"),
        Route("get", "get_task", GET, "taskData"),
        Route("list", "get_task_list", GET, "taskList"),
        Route("count", "get_task_counts_by_type", GET, "counts"),
        Route("register", "register_task", POST),
        Route("ping", "ping", GET),
    ),
)
_JAVA = Dialect(
    name="java",
    camel=False,
    context="task_context",
    left_out=frozenset({"max_retry_interval"}),
    states=(1, 2, 4, 8),
    second=1000,
    envelope=True,
    id_form="{job}_{type}_task_1",
    # Its workers reckon delays in the wrong unit, as a thousandth of the settings.
    delays=False,
    late_is_ok=True,
    routes=(
        Route("settings", "task_schedule_cfg/list", BOTH, "scheduleCfgList"),
        Route("configure", "task_schedule_cfg/task_configuration", BOTH),
        Route("hold", "task/hold_task", BOTH, "taskList"),
        Route("set", "task/set_task", POST),
        Route("create", "task/create_task", POST, "task_id"),
        Route("get", "task/get_task", GET, "taskData"),
        Route("list", "task/task_list", GET, "taskList"),
        Route("list_of_user", "task/user_task_list", GET, "taskList"),
    ),
)
_AS_PRINTED = Dialect(
    name="api",
    camel=True,
    context="taskContext",
    left_out=frozenset({"max_retry_interval"}),
    second=1000,
    envelope=True,
    own_base="/api",
    routes=(
        Route("settings", "task_schedule_cfg/list", BOTH, "scheduleCfgList"),
        Route("hold", "task/hold_task", BOTH, "taskList"),
        Route("set", "task/setTask", POST),
        Route("create", "task/createTask", POST, "taskId"),
        Route("get", "task/getTask", GET, "taskData"),
        Route("list", "task/getTaskList", GET, "taskList"),
        Route("list_of_user", "task/getUserTaskList", GET, "taskList"),
        Route("count", "task/get_task_counts_by_type", GET, "counts"),
        Route("register", "task/register_task", POST),
    ),
)
BY_NAME: Mapping[str, Dialect] = {each.name: each for each in (_GO_V1, _GO, _JAVA, _AS_PRINTED)}
assert tuple(BY_NAME) == DIALECTS  # noqa: S101 - the settings name them, too
