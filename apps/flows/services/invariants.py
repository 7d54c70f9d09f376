"""Audit of flows: runs, their steps and the jobs of these as SQL over the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from django.db import connection
from django.utils.translation import gettext_lazy as _

from apps.common import ids
from apps.common.audit import (
    MAX_FOUND,
    Breach,
    Check,
    CheckResult,
    RowRule,
    check_rows,
    say,
)
from apps.common.db import fetch, table
from apps.flows.models import OPEN, FlowRun, FlowStep
from apps.flows.rules import joins
from apps.flows.rules.definition import Definition
from apps.jobs.models import ArchivedJob, Job
from apps.jobs.rules import transitions as t
from apps.journal.models import JournalEntry, Source
from apps.journal.services.retention import complete_from

_OPEN = ", ".join(f"'{status}'" for status in OPEN)
_FINAL = ", ".join(f"'{status}'" for status in t.FINAL)
_ENDED = ", ".join(
    f"'{state}'" for state in joins.STATES if state not in (joins.BLOCKED, joins.ACTIVE)
)
# A step that needs nobody to look at it has come to its end, or has not begun.
# One that is blocked is begun by the next look where many jobs were made just before.
_LOOKED_AT = f"state IN ('{joins.BLOCKED}', '{joins.ACTIVE}', '{joins.FAILED}')"


def _runs(_recent: int) -> CheckResult:
    """I72: of the runs by themselves."""
    key = connection.ops.quote_name("key")
    is_sqlite = connection.vendor == "sqlite"
    whole = f"flow || '|' || {key}" if is_sqlite else f"CONCAT(flow, '|', {key})"
    rules = (
        RowRule(
            "I72",
            f"(finished_at IS NULL) <> (status IN ({_OPEN}))",
            _("%(status)s, but the time of its end says otherwise"),
            ("status",),
        ),
        RowRule(
            "I72",
            f"open_key IS NOT NULL AND status NOT IN ({_OPEN})",
            _("%(status)s, but keeps others of its key out"),
            ("status",),
        ),
        RowRule(
            "I72",
            f"status IN ({_OPEN}) AND {key} <> '' AND (open_key IS NULL OR open_key <> {whole})",
            _("%(status)s, but keeps no others of its key out"),
            ("status",),
        ),
    )
    return check_rows(FlowRun, rules, "flow run")


def _ends(recent: int) -> CheckResult:
    """I72: the newest runs that have ended have failed if a step has that is not optional, and have
    this end in the journal once."""
    runs = [
        *FlowRun.objects.exclude(status__in=OPEN)
        .order_by("-pk")
        .values_list("pk", "status", "definition", "finished_at")[: recent // 100]
    ]
    stands: dict[int, dict[str, joins.Stands]] = {}
    steps = FlowStep.objects.filter(run__in=[run for run, *_others in runs])
    for run, name, state in steps.values_list("run", "name", "state"):
        stands.setdefault(run, {})[name] = joins.Stands(state)
    entries = JournalEntry.objects.filter(source=Source.FLOW, subject_id__in=[*stands])
    ends = Counter(entries.filter(event="ended").values_list("subject_id", "at", "to_state"))
    breaches = []
    for run, status, said, at in runs:
        if status != FlowRun.Status.CANCELLED and _has_failed(said, stands.get(run, {})) != (
            status == FlowRun.Status.FAILED
        ):
            text = say(_("%(status)s, but its steps say otherwise"), {"status": status})
        elif at and ids.lowest_id_at(at) >= complete_from() and ends[run, at, status] != 1:
            words = _("%(status)s, but the journal tells of this end %(count)d times")
            text = say(words, {"status": status, "count": ends[run, at, status]})
        else:
            continue
        breaches.append(Breach("I72", f"flow run {run}", text))
    return CheckResult(len(runs), breaches)


def _has_failed(said: Any, stands: Mapping[str, joins.Stands]) -> bool | None:
    """Whether a run with these steps has failed; None if they are not those of its definition."""
    definition = Definition(said)
    if stands.keys() != definition.steps.keys():
        return None
    return joins.has_failed(definition, stands)


def _steps(_recent: int) -> CheckResult:
    """I72: no step goes on in a run that has ended, and each that goes on is looked at."""
    rules = (
        RowRule(
            "I72",
            f"state = '{joins.ACTIVE}' AND look_at IS NULL",
            _("is active, but nobody looks at it"),
        ),
        RowRule(
            "I72",
            f"look_at IS NOT NULL AND NOT {_LOOKED_AT}",
            _("%(state)s, but is looked at"),
            ("state",),
        ),
        RowRule(
            "I72",
            f"(started_at IS NULL) AND state = '{joins.ACTIVE}'",
            _("is active without a start"),
        ),
    )
    found = check_rows(FlowStep, rules, "flow step")
    odd = fetch(
        f"SELECT s.id, s.state, r.status FROM {table(FlowStep)} s "
        f"JOIN {table(FlowRun)} r ON r.id = s.run_id "
        f"WHERE s.look_at IS NOT NULL AND s.state = '{joins.ACTIVE}' AND r.status NOT IN ({_OPEN}) "
        f"ORDER BY s.id LIMIT {MAX_FOUND + 1}"
    )
    words = _("%(state)s in a run that is %(status)s")
    breaches = [
        *found.breaches,
        *(
            Breach("I72", f"flow step {pk}", say(words, {"state": state, "status": status}))
            for pk, state, status in odd[:MAX_FOUND]
        ),
    ]
    return CheckResult(found.rows, breaches, found.cut or len(odd) > MAX_FOUND)


def _jobs(recent: int) -> CheckResult:
    """I71: the jobs of steps that go on are all there, live or in the archive; the newest jobs that
    are part of a step lie in its range; none of a step that has ended is open, unless somebody has
    retried it since."""
    steps, jobs = table(FlowStep), table(Job)
    of_step = "j.id BETWEEN s.first AND s.last AND j.part_of = s.id"
    newest = f"SELECT * FROM {steps} WHERE look_at IS NOT NULL AND made > 0 ORDER BY id DESC"
    counted = fetch(
        f"SELECT s.id, s.made, (SELECT COUNT(*) FROM {jobs} j WHERE {of_step}), "
        f"(SELECT COUNT(*) FROM {table(ArchivedJob)} j WHERE {of_step}) "
        f"FROM ({newest} LIMIT {int(recent) // 100}) s"
    )
    of_parts = f"SELECT id, part_of, finished_at FROM {jobs} ORDER BY id DESC LIMIT {int(recent)}"
    outside = fetch(
        f"SELECT j.id, j.part_of FROM ({of_parts}) j LEFT JOIN {steps} s ON s.id = j.part_of "
        "WHERE j.part_of IS NOT NULL AND (s.id IS NULL OR s.first IS NULL "
        f"OR j.id < s.first OR j.id > s.last) LIMIT {MAX_FOUND + 1}"
    )
    left = fetch(
        f"SELECT j.id, s.id, s.state FROM ({of_parts}) j JOIN {steps} s ON s.id = j.part_of "
        f"WHERE j.finished_at IS NULL AND s.state IN ({_ENDED}) AND NOT EXISTS "
        f"(SELECT 1 FROM {table(JournalEntry)} e WHERE e.source = %s AND e.subject_id = j.id "
        f"AND e.from_state IN ({_FINAL}) AND e.to_state NOT IN ({_FINAL}) AND e.at >= s.ended_at) "
        f"AND j.id >= %s LIMIT {MAX_FOUND + 1}",
        [Source.JOB.value, complete_from()],
    )
    lost = _("made %(made)d jobs, and %(found)d are there")
    breaches = [
        Breach("I71", f"flow step {pk}", say(lost, {"made": made, "found": live + archived}))
        for pk, made, live, archived in counted
        if made != live + archived
    ]
    breaches += [
        Breach("I71", f"job {pk}", say(_("is not in the range of step %(step)d"), {"step": step}))
        for pk, step in outside[:MAX_FOUND]
    ]
    breaches += [
        Breach(
            "I71",
            f"job {pk}",
            say(_("is open, but step %(step)d is %(state)s"), {"step": step, "state": state}),
        )
        for pk, step, state in left[:MAX_FOUND]
    ]
    is_cut = max(len(outside), len(left)) > MAX_FOUND
    return CheckResult(len(counted), breaches, is_cut)


CHECKS = (
    Check("flow runs", ("I72",), _("A run of a flow is open or has ended, not both"), _runs),
    Check(
        "ended flow runs",
        ("I72",),
        _("Each run of a flow has failed if its steps have, and has ended once"),
        _ends,
        recent=True,
    ),
    Check("flow steps", ("I72",), _("Steps go on in open runs, and each is looked at"), _steps),
    Check(
        "jobs of flow steps",
        ("I71",),
        _("The jobs of a step are all there, and in its range"),
        _jobs,
        recent=True,
    ),
)
