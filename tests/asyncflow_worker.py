"""Workers of asyncflow as they behave on the wire, one class for each dialect, as a program.

`python asyncflow_worker.py DIALECT ADDRESS TYPE` polls until it is killed. Written from the
description of the wire alone, with the standard library: what the originals do wrong they do wrong
here, too. The context of a task says what its stages do: `{"n": …, "fails": …, "naps": …}` fails
stage `one` until it was tried so often, or sleeps so long in the first attempt.

It prints a line for each run: `run <job> <stage> <tries> <began> <ended>`, and `set <job> <code>
<order time>` for each report, with times in seconds of this machine's clock.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import random
import sys
import threading
import time
from datetime import datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

TIMEOUT = 10.0
JSON = "application/json;charset=utf-8"
STAGES = ("one", "two")


class Dies(BaseException):
    """The whole worker ends, as by a panic or an exception that nobody handles."""


class Refused(Exception):
    """The call has failed, as its client library finds."""


def say(*words: object) -> None:
    """One write, so that lines of threads do not mix."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Worker:
    """What all of them have in common: poll, hold, run each task in a thread, report once."""

    jitter = (-0.5, 0.5)
    waiting, running, succeeded, failed = 1, 2, 3, 4
    second = 1

    def __init__(self, address: str, type_: str) -> None:
        self.address, self.type = urlsplit(address), type_
        self.settings = self.load()

    def ask(
        self, method: str, path: str, query: Any = None, body: Any = None, media: str = JSON
    ) -> Any:
        """The decoded body; these clients do not look at the status."""
        connection = http.client.HTTPConnection(
            self.address.hostname or "", self.address.port, timeout=TIMEOUT
        )
        headers = {"Content-Type": media} if media else {}
        if self.address.username:
            pair = f"{self.address.username}:{self.address.password}".encode()
            headers["Authorization"] = "Basic " + base64.b64encode(pair).decode()
        target = self.address.path + path + ("?" + urlencode(query) if query else "")
        try:
            connection.request(method, target, json.dumps(body) if body else None, headers)
            return self.decoded(json.loads(connection.getresponse().read()))
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise Refused(str(error)) from error
        finally:
            connection.close()

    def decoded(self, answer: Any) -> Any:
        """A body without a code is one of success."""
        if answer.get("code", 0) != 0:
            raise Refused(str(answer["code"]))
        return answer

    def work(self) -> None:
        while True:
            interval = self.number(self.settings, "schedule_interval") or 20
            time.sleep(max(0.0, interval + random.uniform(*self.jitter)))
            try:
                tasks = self.hold()
            except Refused as error:
                say("refused", error)
                continue
            for task in tasks:
                threading.Thread(target=self.run, args=[task], daemon=True).start()

    def run(self, task: dict[str, Any]) -> None:
        began, tries = time.time(), self.number(task, "crt_retry_num")
        job = self.text(task, "task_id").split("_")[0]
        stage = self.text(task, "task_stage")
        try:
            error = self.handle(task, json.loads(self.text(task, self.context)))
        except ValueError:
            # It cannot read the context, and gives the task back as it was.
            self.put(task, "status", self.waiting)
        else:
            self.end(task, error)
        say("run", job, stage, tries, f"{began:.3f}", f"{time.time():.3f}")
        for _ in range(2):
            try:
                self.set(task)
            except Refused as refusal:
                say("set", job, refusal, 0)
            else:
                say("set", job, 0, self.number(task, "order_time") / self.second)
                return

    def handle(self, task: dict[str, Any], context: dict[str, Any]) -> str:
        """What its own code does with a task; "" or what went wrong."""
        tries = self.number(task, "crt_retry_num")
        stage = self.text(task, "task_stage")
        if tries == 0 and stage == STAGES[0]:
            time.sleep(context.get("naps", 0))
        if stage == STAGES[0] and tries < context.get("fails", 0):
            return f"attempt {tries} of {context['n']} failed"
        if stage == STAGES[1]:
            self.put(task, "status", self.succeeded)
        else:
            self.put(task, "task_stage", STAGES[1])
            self.put(task, self.context, json.dumps({**context, "seen": stage}))
        return ""

    # What differs between the dialects.
    context = "context"

    def spelled(self, word: str) -> str:
        return word

    def text(self, values: dict[str, Any], word: str) -> str:
        value = values[self.spelled(word)]
        if not isinstance(value, str):
            raise Dies(f"{word} is {value!r}")
        return value

    def number(self, values: dict[str, Any], word: str) -> int:
        value = values[self.spelled(word)]
        if type(value) is not int:
            raise Dies(f"{word} is {value!r}")
        return value

    def put(self, values: dict[str, Any], word: str, value: Any) -> None:
        values[self.spelled(word)] = value

    def load(self) -> dict[str, Any]:
        raise NotImplementedError

    def hold(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def set(self, task: dict[str, Any]) -> None:
        raise NotImplementedError

    def end(self, task: dict[str, Any], error: str) -> None:
        raise NotImplementedError

    def mine(self, found: Any) -> dict[str, Any]:
        """The settings of its type; it ends without them."""
        for each in found or ():
            if each[self.spelled("task_type")] == self.type:
                return dict(each)
        raise Dies(f"no settings of {self.type}")

    def own(self, tasks: Any) -> list[dict[str, Any]]:
        """The batch, all of which is lost if one of it is of a type that it does not know."""
        for task in tasks or ():
            if self.text(task, "task_type") != self.type:
                raise Refused(f"unknown type {task}")
        return list(tasks or ())


class GoV1(Worker):
    """Its lock in Redis is its own affair and left out: the server has to be right without it."""

    prefix = "/v1"
    keys = {"settings": "task_schedule_cfg_list", "tasks": "task_list"}

    def load(self) -> dict[str, Any]:
        found = self.ask("GET", f"{self.prefix}/get_task_schedule_cfg_list")
        return self.mine(found[self.keys["settings"]])

    def hold(self) -> list[dict[str, Any]]:
        limit = self.number(self.settings, "schedule_limit")
        body = {self.spelled("task_type"): self.type, "limit": limit}
        # The body goes without a media type.
        found = self.ask("POST", f"{self.prefix}/hold_tasks", body, body, media="")
        tasks = self.own(found[self.keys["tasks"]])
        for task in tasks:
            self.check_times(task)
            self.put(task, "status", self.running)
        return tasks

    def check_times(self, task: dict[str, Any]) -> None:
        """Anything but RFC 3339 or null breaks the answer: nobody runs what stays held."""
        for word in ("create_time", "modify_time"):
            value = task[self.spelled(word)]
            try:
                datetime.fromisoformat((value or "0001-01-01T00:00:00Z").replace("Z", "+00:00"))
            except ValueError as error:
                raise Refused(f"unreadable {value!r}") from error

    def end(self, task: dict[str, Any], error: str) -> None:
        text = self.text(task, "schedule_log")
        log = json.loads(text) if text else {}
        last = log.get("LastData", {"TraceId": "", "ErrMsg": "", "Cost": ""})
        history = [*log.get("HistoryDatas", []), last][-3:]
        log = {"LastData": {"TraceId": "t", "ErrMsg": error[:256], "Cost": "1ms"}}
        self.put(task, "schedule_log", json.dumps({**log, "HistoryDatas": history}))
        if task["status"] == self.running:
            task["status"] = self.waiting
        now = int(time.time())
        self.put(task, "order_time", now - self.number(task, "priority"))
        if error:
            self.fail(task, now)

    def fail(self, task: dict[str, Any], now: int) -> None:
        most = self.number(self.settings, "max_retry_interval")
        wait = min(self.number(task, "max_retry_interval") * 2, most)
        self.put(task, "max_retry_interval", wait)
        self.put(task, "order_time", now + wait)
        tries, last = self.number(task, "crt_retry_num"), self.number(task, "max_retry_num")
        if last == 0 or tries >= last:
            task["status"] = self.failed
        else:
            self.put(task, "crt_retry_num", tries + 1)

    def set(self, task: dict[str, Any]) -> None:
        self.ask("POST", f"{self.prefix}/set_task", body={"task_data": task})


class Go(GoV1):
    """Panics on a null time; sends the id beside the task only, and no new order time."""

    prefix = ""
    keys = {"settings": "scheduleCfgList", "tasks": "taskList"}

    def spelled(self, word: str) -> str:
        first, *others = word.split("_")
        return first + "".join(map(str.capitalize, others))

    def check_times(self, task: dict[str, Any]) -> None:
        for word in ("create_time", "modify_time"):
            if task[self.spelled(word)] is None:
                raise Dies(f"{word} is null")
        super().check_times(task)

    def end(self, task: dict[str, Any], error: str) -> None:
        due = self.number(task, "order_time")
        super().end(task, error)
        self.put(task, "order_time", due)

    def set(self, task: dict[str, Any]) -> None:
        sent = {**task, "taskId": ""}
        body = {"taskId": task["taskId"], "TaskData": sent, "context": task["context"]}
        self.ask("POST", "/set_task", body=body)


class Java(Worker):
    """Dies of keys that are missing, and a call throws unless its code is 0."""

    jitter = (0.0, 0.5)
    succeeded, failed = 4, 8
    second = 1000
    context = "task_context"
    method = "GET"
    paths = {"settings": "/task_schedule_cfg/list", "hold": "/task/hold_task"}
    report = "/task/set_task"
    reported = (
        *("task_id", "task_stage", "status", "schedule_log", "task_context", "order_time"),
        *("priority", "crt_retry_num", "max_retry_num", "max_retry_interval"),
    )

    def decoded(self, answer: Any) -> Any:
        if answer["code"] != 0:
            raise Refused(str(answer["code"]))
        return answer["result"]

    def call(self, path: str, values: Any) -> Any:
        sent = {self.spelled(word): value for word, value in values.items()}
        if self.method == "GET":
            return self.ask("GET", path, query=sent, media="")
        return self.ask("POST", path, body=sent or {"all": True})

    def load(self) -> dict[str, Any]:
        return self.mine(self.call(self.paths["settings"], {})["scheduleCfgList"])

    def hold(self) -> list[dict[str, Any]]:
        limit = self.number(self.settings, "schedule_limit")
        wish = {"limit": limit, "task_type": self.type, "status": self.waiting}
        return self.own(self.call(self.paths["hold"], wish)["taskList"])

    def end(self, task: dict[str, Any], error: str) -> None:
        if error:
            tries = self.number(task, "crt_retry_num")
            self.put(task, "crt_retry_num", tries + 1)
            self.put(task, "order_time", int(time.time() * 1000) + self.wait(tries + 1))
            is_last = tries >= self.number(task, "max_retry_num")
            task["status"] = self.failed if is_last else self.waiting
            return
        self.put(task, "schedule_log", json.dumps(self.text(task, "schedule_log")))
        if task["status"] != self.succeeded:
            task["status"] = self.waiting

    def wait(self, tries: int) -> int:
        """In a wrong unit: milliseconds of what is in seconds."""
        return self.number(self.settings, "retry_interval") << tries

    def set(self, task: dict[str, Any]) -> None:
        flat = {self.spelled(word): task[self.spelled(word)] for word in self.reported}
        self.ask("POST", self.report, body=flat)


class AsPrinted(Java):
    """As the design was published: POST for all calls, and back-off in the right unit."""

    succeeded, failed = 3, 4
    method = "POST"
    paths = {"settings": "/api/task_schedule_cfg/list", "hold": "/api/task/hold_task"}
    report = "/api/task/setTask"

    def spelled(self, word: str) -> str:
        first, *others = word.split("_")
        return first + "".join(map(str.capitalize, others))

    def wait(self, tries: int) -> int:
        return 1000 * self.number(self.settings, "retry_interval") << (tries - 1)


WORKERS = {"g2": GoV1, "g1": Go, "java": Java, "api": AsPrinted}

if __name__ == "__main__":
    name, address, type_ = sys.argv[1:]
    WORKERS[name](address, type_).work()
