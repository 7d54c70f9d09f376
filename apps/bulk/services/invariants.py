"""Audit of bulk runs: every row that was collected is accounted for."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from apps.bulk.models import BulkRow, BulkRun
from apps.common.audit import MAX_FOUND, Breach, Check, CheckResult, RowRule, check_rows, say
from apps.common.db import fetch, table

_RULES = (
    RowRule(
        "I65",
        "state = 'done' AND done + skipped + failed <> collected",
        _("is done, but %(done)s + %(skipped)s + %(failed)s rows are not %(collected)s"),
        ("done", "skipped", "failed", "collected"),
    ),
    RowRule(
        "I65",
        "done + skipped + failed > collected",
        _("has changed more rows than it collected: %(collected)s"),
        ("collected",),
    ),
)


def _runs(_recent: int) -> CheckResult:
    """I65: done, skipped and failed rows of an ended run are all that it collected."""
    return check_rows(BulkRun, _RULES, "bulk run")


def _rows(recent: int) -> CheckResult:
    """I65: the rows of the newest runs are as many as each run says, by outcome."""
    found = fetch(
        "SELECT r.id, r.collected, r.done, r.skipped, r.failed, COUNT(w.id), "
        "SUM(w.outcome = 'done'), SUM(w.outcome = 'skipped'), SUM(w.outcome = 'failed') "
        f"FROM (SELECT * FROM {table(BulkRun)} ORDER BY id DESC LIMIT 20) r "
        f"JOIN {table(BulkRow)} w ON w.run_id = r.id "
        "GROUP BY r.id, r.collected, r.done, r.skipped, r.failed ORDER BY r.id"
    )
    breaches = [
        Breach(
            "I65",
            f"bulk run {number}",
            say(_("counts %(said)s, its rows are %(counted)s"), {"said": said, "counted": counted}),
        )
        for number, *figures in found
        for said, counted in [(figures[:4], [int(each) for each in figures[4:]])]
        if said != counted
    ]
    return CheckResult(sum(int(row[5]) for row in found), breaches, len(breaches) > MAX_FOUND)


CHECKS = (
    Check("bulk runs", ("I65",), _("Each bulk run accounts for all its rows"), _runs),
    Check(
        "rows of bulk runs",
        ("I65",),
        _("The rows of the newest bulk runs are as many as the runs say"),
        _rows,
        recent=True,
    ),
)
