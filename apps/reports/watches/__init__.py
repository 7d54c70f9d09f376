"""The watches over the platform: each reads figures and says which of them are wrong.

Alert rules, the page of governance, the notices on the home page, `/metrics` and `manage.py check`
have no figures of their own: they read these. Their home is in reports, above the boxes whose facts
they compare and below alerts; alerts append the watches whose facts only alerts can know.
"""

from __future__ import annotations

from apps.common.messages import Message as _
from apps.reports.watches import database, flows, jobs, plans, processes, sinks, stored, tables
from apps.reports.watches.base import RuleWatch, Watch

WATCHES: list[Watch] = [
    tables.OVERDUE_ROWS,
    tables.MISSING_PARTITIONS,
    tables.ROWS_BEHIND,
    sinks.HOLDING_BACK,
    sinks.LATE_SINKS,
    tables.LATE_MOVER,
    jobs.UNUSED_TYPES,
    database.CLOCKS,
    jobs.SAME_FAILURES,
    database.OPEN_TRANSACTIONS,
    jobs.FAILURE_RATE,
    jobs.OLDEST_DUE,
    processes.WORKER_SILENT,
    processes.UNSERVED,
    plans.QUOTA_UNFILLED,
    plans.WILL_NOT_FILL,
    processes.BEAT_LATE,
    processes.SWEEPS_LATE,
    processes.SWEEP_OVERDUE,
    jobs.BREAKER_OPEN,
    jobs.BACKLOG_GROWTH,
    plans.SCHEDULE_FAILED,
    flows.RUN_FAILED,
    flows.STEP_ACTIVE,
    jobs.PAUSED,
    jobs.INBOX_ROWS,
    processes.QUIET,
    *stored.STORED,
]
# The watches that alert rules can have, by the kind of the rule.
FOR_RULES = {each.key: each for each in WATCHES if isinstance(each, RuleWatch)}
# The watch of a rule whose kind only another release knows: it reads nothing.
_OF_ANOTHER = _("This release does not know its kind; choose another one, or delete the rule.")
UNKNOWN = RuleWatch(
    key="",
    label=_OF_ANOTHER,
    title=_OF_ANOTHER,
    read=lambda _sheet: (),
    has_target=lambda _name: True,
    nothing=_OF_ANOTHER,
)
