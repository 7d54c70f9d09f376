"""`demo --flow`: the weekly price round, a flow of people and programs, and who carries it out.

Six people photograph shelves. A program reads the prices on each photo as soon as there is one, so
it does not wait for the last of them; another tells which photos are too dark, and these are taken
again. A manager reviews what was read, and when head office has released the prices, a program
writes the report. Where prices stay unread, a job alarms the managers.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management import CommandError

from apps.common.db import transactional
from apps.dispatch.models import Dispatch as DispatchRow
from apps.flows.models import Flow, FlowRun, FlowStep
from apps.flows.rules.builder import Flow as Builder
from apps.flows.services.control import finish
from apps.flows.services.flows import put_flow
from apps.flows.services.invariants import CHECKS
from apps.flows.services.start import start
from apps.jobs.models import Job, JobType
from apps.jobs.rules import transitions as t
from apps.jobs.services import control, types
from apps.schedules.models import Schedule
from apps.schedules.services import schedules
from taskplatform import sdk
from taskplatform.demo.clients import Clients
from taskplatform.demo.company import ACTOR, PEOPLE, PRICE_ROUND, ROUND_TEMPLATES
from taskplatform.demo.outside import Outside, outside
from taskplatform.demo.planning import ensure_company
from taskplatform.demo.proofs import Proof, audited

NAME, TITLE = "weekly-price-round", "Weekly price round"
RECOGNISE, SORT, REPORT, ALARM, START = PRICE_ROUND["types"]
STAFF, MANAGERS = PRICE_ROUND["groups"]
PHOTOS, REVIEW = PRICE_ROUND["templates"]
PARAMS: dict[str, Any] = PRICE_ROUND["params"]
PEOPLE_WANTED, PEOPLE_NEEDED = 6, 5
# How many photos each of them takes.
SHARE = len(PARAMS["photos"]) // PEOPLE_WANTED
HEADINGS = ("Step", "State", "Who or what", ">Done", ">Failed")
# The photo that is too dark at first, and the one whose prices are asked for in vain.
DARK, UNREACHED = PARAMS["photos"][4], PARAMS["photos"][9]
ERROR = "HTTP 503 from prices.example"
_SCHEMA = {
    "type": "object",
    "properties": {
        "shop": {"type": "string"},
        "photos": {"type": "array", "items": {"type": "string"}, "maxItems": 100},
    },
    "required": ["shop", "photos"],
}


def definition() -> Mapping[str, Any]:
    """The definition of the flow."""
    flow = Builder(NAME, params=_SCHEMA)
    shop, photos = flow.param("shop"), flow.param("photos")
    taken = flow.task(
        "photos",
        title="Shelf photos",
        to=STAFF,
        quota=PEOPLE_WANTED,
        at_least=PEOPLE_NEEDED,
        template=PHOTOS,
        params={"shop": shop, "photos": photos},
        priority=90,
        lease_seconds=2400,
    )
    prices = flow.jobs(
        "recognise", RECOGNISE, title="Recognise prices", each=photos, max=100, shop=shop
    )
    found = flow.job("sort", SORT, title="Find dark photos", results=prices["results"])
    again = flow.task(
        "again",
        title="Photograph again",
        to=STAFF,
        template=PHOTOS,
        params={"shop": shop, "photos": found["places"]},
        only_if=found.equals(True, "dark"),
        priority=90,
        within=7200,
        optional=True,
    )
    released = flow.wait("release", title="Release by head office")
    review = flow.task(
        "review",
        title="Review the prices",
        to=MANAGERS,
        template=REVIEW,
        params={"shop": shop, "prices": found["prices"]},
        after=[taken, again],
        priority=90,
        within=14_400,
    )
    flow.job(
        "report",
        REPORT,
        title="Write the report",
        after=released,
        shop=shop,
        review=review.results,
        photos=prices.pages,
    )
    flow.job("alarm", ALARM, title="Alarm the managers", after=prices, when="failure", shop=shop)
    return flow.definition


@transactional
def plan_flow() -> tuple[Flow, Schedule | None]:
    """The flow with all that it names, as far as that is missing, and the schedule that starts it;
    None if there has been one. CommandError where the types are not those of the round."""
    ensure_company(PRICE_ROUND["groups"], ROUND_TEMPLATES)
    types.ensure_types(PRICE_ROUND["types"], PRICE_ROUND["types"], actor=ACTOR)
    if JobType.objects.filter(name=RECOGNISE).exclude(handler="").exists():
        raise CommandError(
            f"The type {RECOGNISE} is run here, by another scene; play this one on a new platform."
        )
    row = Flow.objects.latest_of(NAME)
    if row is None or row.created_by == ACTOR:
        # The next version where an earlier demo has planned it otherwise; an operator's stays.
        row = put_flow(name=NAME, title=TITLE, definition=definition(), actor=ACTOR)
    if Schedule.objects.filter(job_type=START).exists():
        return row, None
    context = {"flow": NAME, "params": PARAMS, "key": PRICE_ROUND["key"]}
    return row, schedules.create_schedule(actor=ACTOR, context=context, **PRICE_ROUND["schedule"])


# --- who carries it out ---------------------------------------------------------------------------
class Staff(Clients):
    """People who also take the photos of a round, into a folder that stands for the shop's store of
    photos. `task` is their first task of it, `left` what nobody has photographed for that."""

    store: Path
    task: int
    left: list[str]

    def _work(self, dispatch: sdk.Dispatch) -> Mapping[str, Any]:
        result = super()._work(dispatch)
        match dispatch.template and dispatch.template["name"]:
            case "shelf-photos":
                return {"photos": self._take(dispatch)}
            case "price-review":
                return {"prices": dispatch.params["prices"], "agreed": True}
        return result

    def _take(self, dispatch: sdk.Dispatch) -> list[str]:
        """Take this person's share of the photos, of which one is too dark, or all that are to be
        taken again."""
        wanted = list(dispatch.params["photos"])
        is_first = dispatch.task == self.task
        if len(wanted) == len(PARAMS["photos"]) and not is_first:
            # Of another round, which stands.
            return wanted[:SHARE]
        if is_first:
            with self._lock:
                wanted, self.left = self.left[:SHARE], self.left[SHARE:]
        for name in wanted:
            # Whole at once, as the program looks at any time.
            written = self.store / f"{name}.part"
            written.write_text(json.dumps({"light": 0.1 if is_first and name == DARK else 0.8}))
            written.rename(self.store / f"{name}.json")
        return wanted


class RoundRun:
    """One run of the flow, which people and a process of programs carry out over HTTP."""

    def __init__(self, url: str, key: str, pace: float) -> None:
        plan_flow()
        self._url, self._key, self._pace = url, key, pace
        number = start(NAME, PARAMS, key=f"demo-{secrets.token_hex(4)}", by=ACTOR).id
        self.number = number
        self.retried: list[int] = []
        self._staff: Staff
        self._programs: Outside
        self._outage: Path

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """The people and the programs at work."""
        # Of all types and groups, because a key with limits sees no flow that reaches further.
        with outside("round_worker.py", name="Demo round", scopes=["hold", "read"]) as there:
            self._programs, store = there, there.folder
            # While it is there, the program cannot reach the list of prices for one photo.
            self._outage = store / "outage"
            self._outage.write_text(UNREACHED)
            there.start("shop-1", self._url, "shop-1", str(store), ERROR)
            self._staff = Staff(self._url, self._key, [*PEOPLE], pace=self._pace, mishaps={})
            self._staff.store, self._staff.left = store, [*PARAMS["photos"]]
            self._staff.task = self._step("photos").task or 0
            with self._staff:
                yield

    def look(self) -> tuple[str, bool]:
        """A line of progress, and whether the run is over; releases the prices, and retries by hand
        what has failed, once the managers have been alarmed and nothing can go on."""
        if self._staff.trouble:
            raise CommandError(self._staff.trouble)
        if self._programs.died():
            raise CommandError("The programs of the round ended by themselves; see above.")
        run = FlowRun.objects.get(pk=self.number)
        self._release(run)
        if run.status == t.FAILED:
            self._retry_failed()
        active = [_titled(run, row) for row in self._steps() if row.state == "active"]
        # One that failed goes on when a look has seen the retry.
        return " · ".join(active) or run.status, run.status in (t.SUCCEEDED, t.CANCELLED)

    def _release(self, run: FlowRun) -> None:
        """Press the button *Finish…* like head office, once all photos are there."""
        states = {row.name: row.state for row in self._steps()}
        if states["photos"] == "succeeded" and states["release"] == "active":
            finish(run=run, step="release", actor=ACTOR, result={"by": "head office"})

    def _retry_failed(self) -> None:
        """Press the button *Retry* like an operator, once the list of prices is there again."""
        steps = [row.pk for row in self._steps()]
        for job in Job.objects.filter(part_of__in=steps, status=t.FAILED, type=RECOGNISE):
            self._outage.unlink(missing_ok=True)
            control.retry(job=job, actor=ACTOR, reason="prices.example answers again")
            self.retried.append(job.pk)

    def _steps(self) -> list[FlowStep]:
        return [*FlowStep.objects.filter(run=self.number).order_by("pk")]

    def rows(self) -> list[list[str]]:
        """The rows of the table, in the order of HEADINGS."""
        return [*rows_of(FlowRun.objects.get(pk=self.number))]

    def proofs(self) -> list[Proof]:
        """The promises of flows, checked on the rows of the run."""
        run = FlowRun.objects.get(pk=self.number)
        states = {row.name: row.state for row in self._steps()}
        dark = self._step("sort").result
        who = [*DispatchRow.objects.filter(part_of=self._step("photos").pk).values_list("executor")]
        failed = Job.objects.filter(pk__in=self.retried)
        of_alarm = Job.objects.filter(part_of=self._step("alarm").pk)
        alarms = [*of_alarm.values_list("status", flat=True)]
        return [
            Proof("the round has succeeded", [] if run.status == "succeeded" else [run.status]),
            Proof(
                f"{PEOPLE_WANTED} different people took photos",
                [] if len({*who}) == len(who) == PEOPLE_WANTED else [f"{len(who)} hand-outs"],
            ),
            Proof(
                "what was too dark was photographed again",
                []
                if dark and dark["places"] == [DARK] and states["again"] == "succeeded"
                else [str(states)],
            ),
            Proof(
                "the managers were alarmed once, and not again by the retry",
                [] if alarms == [t.SUCCEEDED] else [f"the alarms: {alarms}"],
            ),
            Proof(
                "what failed was retried by hand, and the run went on",
                []
                if [job.status for job in failed] == [t.SUCCEEDED]
                else [f"{len(self.retried)} jobs were retried"],
            ),
            *audited(CHECKS),
        ]

    def _step(self, name: str) -> FlowStep:
        return next(row for row in self._steps() if row.name == name)


def _titled(run: FlowRun, row: FlowStep) -> str:
    return str(run.read.steps[row.name].said.get("title", row.name))


def rows_of(run: FlowRun) -> Iterator[list[str]]:
    """The steps of a run, each with who or what has it and how far it is."""
    for name, step in run.read.steps.items():
        row = FlowStep.objects.get(run=run.pk, name=name)
        who = "somebody"
        found: Any = ()
        if row.kind == "task":
            who = f"{step.said.get('quota', 1)} of {step.said['executor']}"
            found = DispatchRow.objects.filter(part_of=row.pk).values_list("state", flat=True)
        elif row.kind != "wait":
            who = f"{row.made} {step.said['type']}"
            found = Job.objects.filter(part_of=row.pk).values_list("status", flat=True)
        ends = Counter(found)
        done = f"{ends['succeeded']} of {sum(ends.values())}" if ends else ""
        failed = str(ends["failed"]) if ends else ""
        yield [_titled(run, row), str(row.get_state_display()), who, done, failed]
