"""Audit of flows: runs, their steps and the jobs of these as SQL over the rows."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

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
from apps.jobs.models import ArchivedJob, Job

_OPEN = ", ".join(f"'{status}'" for status in OPEN)
# A step that needs nobody to look at it has come to its end, or has not begun.
# One that is blocked is begun by the next look where many jobs were made just before.
_LOOKED_AT = f"state IN ('{joins.BLOCKED}', '{joins.ACTIVE}', '{joins.FAILED}')"


def _runs(_recent: int) -> CheckResult:
    """I72: of the runs by themselves."""
    rules = (
        RowRule(
            "I72",
            f"(finished_at IS NULL) <> (status IN ({_OPEN}))",
            _("%(status)s, but the time of its end says otherwise"),
            ("status",),
        ),
        RowRule(
            "I72",
            f"(open_key IS NOT NULL) <> (status IN ({_OPEN}) AND open_key IS NOT NULL)",
            _("%(status)s, but keeps others of its key out"),
            ("status",),
        ),
    )
    return check_rows(FlowRun, rules, "flow run")


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
    steps, runs = table(FlowStep), table(FlowRun)
    odd = fetch(
        f"SELECT s.id, s.state, r.status FROM {steps} s JOIN {runs} r ON r.id = s.run_id "
        f"WHERE s.look_at IS NOT NULL AND s.state = '{joins.ACTIVE}' AND r.status NOT IN ({_OPEN}) "
        f"ORDER BY s.id LIMIT {MAX_FOUND + 1}"
    )
    failed = fetch(
        f"SELECT r.id, r.status FROM {runs} r WHERE r.status = '{FlowRun.Status.FAILED.value}' "
        f"AND NOT EXISTS (SELECT 1 FROM {steps} s WHERE s.run_id = r.id "
        f"AND s.state = '{joins.FAILED}') ORDER BY r.id LIMIT {MAX_FOUND + 1}"
    )
    words = _("%(state)s in a run that is %(status)s")
    breaches = [
        *found.breaches,
        *(
            Breach("I72", f"flow step {pk}", say(words, {"state": state, "status": status}))
            for pk, state, status in odd[:MAX_FOUND]
        ),
        *(
            Breach("I72", f"flow run {pk}", say(_("failed without a failed step"), {}))
            for pk, _status in failed[:MAX_FOUND]
        ),
    ]
    return CheckResult(found.rows, breaches, found.cut or len(odd) > MAX_FOUND)


def _jobs(recent: int) -> CheckResult:
    """I71: the jobs of steps that go on are all there, live or in the archive; the newest jobs that
    are part of a step lie in its range; none of a step is open that has ended well."""
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
        f"WHERE j.finished_at IS NULL AND s.state IN ('{joins.SKIPPED}', '{joins.CANCELLED}') "
        f"LIMIT {MAX_FOUND + 1}"
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
    Check("flow steps", ("I72",), _("Steps go on in open runs, and each is looked at"), _steps),
    Check(
        "jobs of flow steps",
        ("I71",),
        _("The jobs of a step are all there, and in its range"),
        _jobs,
        recent=True,
    ),
)
