"""What the pages of runs of flows are looked at with: a price round as it goes on, and others."""

from __future__ import annotations

from typing import Any, NamedTuple

from apps.dispatch.models import Executor
from apps.flows.models import FlowRun
from apps.flows.services import control, flows
from apps.flows.services.advance import advance
from apps.flows.services.start import start
from apps.jobs.models import Job, JobType
from tests import callback, factories
from tests.flows import OLGA, job, jobs, ref, run_of, task, wait
from tests.jobs import end, job_type, take

TYPES = ("price-recognise", "report-write")
SCHEMA = {
    "type": "object",
    "properties": {"shop": {"type": "string", "title": "shop"}, "photos": {"type": "integer"}},
}
STEPS = [
    task("shelf-photos", "gid_round", quota=6, title="Aisle 7", lease_seconds=3600),
    jobs("recognise", [{"photo": number} for number in range(12)], type="price-recognise"),
    wait("goods-in"),
    task("review", "gid_round", needs=["shelf-photos", "recognise"], within=14_400),
    task("photograph-again", "gid_round", needs=["recognise"], when="failure"),
    job(
        "report", type="report-write", needs=["review", "goods-in"], context={"all": ref("review")}
    ),
]
# Names as people abroad write them, and as those do who mean harm.
PEOPLE = {
    "uid_round_hugo": "Hugo Silva",
    "uid_round_li": "李明 📷",
    "uid_round_bad": "<b>Bold</b>",
    "uid_round_rtl": "דוד כהן",
    "uid_round_ann": "Ann Baker",
    "uid_round_zoe": "Zoë",
}


class Rounds(NamedTuple):
    """Runs by how they stand."""

    running: FlowRun
    paused: FlowRun
    stopping: FlowRun
    failed: FlowRun
    succeeded: FlowRun
    own: FlowRun


def prepare() -> None:
    """The types, the group of people and the flow of a price round."""
    if JobType.objects.filter(name=TYPES[0]).exists():
        return
    for name in TYPES:
        job_type(name, max_attempts=1)
    factories.group("gid_round", [*PEOPLE])
    for name, title in PEOPLE.items():
        Executor.objects.filter(name=name).update(title=title)
    definition = {"params": SCHEMA, "steps": STEPS}
    flows.put_flow(name="price-round", definition=definition, actor="x", title="Weekly price round")


def begun(key: str) -> FlowRun:
    """A price round that nobody has worked at yet."""
    prepare()
    params = {"shop": "Nanjing Road", "photos": 12}
    return run_of(start("price-round", params, key=key, by="admin:olga").id)


def at_work(
    run: FlowRun, *, failed: int = 1, done: int = 9, held: int = 1, people: int = 2
) -> None:
    """Some of its jobs fail, succeed and run, and some people have a task in hand."""
    own = {*run.steps.values_list("pk", flat=True)}
    taken = take(types=TYPES)
    for each in [each for each in taken if _part_of(each.id) not in own]:
        end(each, "released")
    for position, each in enumerate(each for each in taken if _part_of(each.id) in own):
        if position < failed:
            end(each, "failed", error="HTTP 503 from prices.example.com <script>")
        elif position < failed + done:
            end(each, result={"price": 100 + position})
        elif position >= failed + done + held:
            end(each, "released")
    for number, name in enumerate(PEOPLE):
        if number < people + 1:
            found: Any = callback.taken(factories.member(name))
            if number < people:
                callback.call_back(executor=found.executor, number=found.pk, outcome="succeeded")
    advance(run.pk)


def _part_of(number: int) -> int | None:
    return Job.objects.filter(pk=number).values_list("part_of", flat=True).first()


def play_rounds() -> Rounds:
    """One run in each state that a page can show."""
    running = begun("2026-47")
    at_work(running)
    paused = begun("2026-48")
    control.pause(run=paused, **OLGA)
    stopping = begun("2026-49")
    at_work(stopping, failed=0, done=2, held=1, people=0)
    control.cancel(run=run_of(stopping.pk), **OLGA)
    prepare()
    failed = run_of(
        _own(job("look", type="report-write"), job("tell", type="report-write", needs=["look"]))
    )
    for each in take(types=("report-write",)):
        end(each, "failed", error="no paper")
    advance(failed.pk)
    succeeded = run_of(_own(wait("sleep"), wait("wake", needs=["sleep"])))
    for name in ("sleep", "wake"):
        control.finish(run=run_of(succeeded.pk), step=name, result={"token": "s3cret"}, **OLGA)
    own = run_of(_own(wait("goods-in"), wait("tomorrow", seconds=86_400)))
    return Rounds(
        *(run_of(each.pk) for each in (running, paused, stopping, failed, succeeded, own))
    )


def _own(*steps: dict[str, Any]) -> int:
    return start(definition={"steps": [*steps]}, by="key:shop").id


def hundred_steps() -> FlowRun:
    """As many steps as there can be, ten beside each other."""
    steps = [
        wait(f"step-{number}", **({"needs": [f"step-{number - 10}"]} if number >= 10 else {}))
        for number in range(100)
    ]
    return run_of(_own(*steps))
