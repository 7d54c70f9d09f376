"""Tables that are to lose old rows: what is overdue, partitions that are missing, a late mover.

ROLLING and MOVERS have one line for each table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple, TypeVar

from django.db import models
from django.utils.text import capfirst

from apps.common import clock, ids, partitions
from apps.common.db import fetch, instant, table, transactional
from apps.common.errors import Conflict, NotFound
from apps.common.leases import load_position, sweep_lease
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.partitions import CannotRoll, Partition
from apps.dispatch.conf import conf as dispatch_conf
from apps.dispatch.models import ArchivedDispatch
from apps.dispatch.services import retention as dispatch_retention
from apps.dispatch.services import roll as dispatch_roll
from apps.jobs.conf import conf as jobs_conf
from apps.jobs.models import ArchivedJob, Job
from apps.jobs.services import archive as jobs_archive
from apps.jobs.services import retention as jobs_retention
from apps.jobs.services import roll as jobs_roll
from apps.journal import services as journal
from apps.journal.conf import conf as journal_conf
from apps.journal.models import JournalEntry
from apps.journal.services import retention as journal_retention
from apps.reports.services.fact_sheet import FactSheet
from apps.reports.watches.base import Fix, Reading, Watch
from apps.reports.watches.subjects import TABLE

FIXED = "finding_fixed"
# How long a fix works by itself; the sweep goes on.
MAX_WORK = timedelta(seconds=10)
_MAX_TURN = timedelta(minutes=10)
# Rows past their retention may stay so much longer: partitions are days wide.
OVERDUE = timedelta(days=3)
# The sweep has had so much time to cut partitions.
CUT_WITHIN = timedelta(hours=3)
# A mover that is this late does not keep up.
LATE = timedelta(days=1)
# Rows of the beginning of a table that are looked at.
READ = 200
# The seconds of cutting up a partition that has rows; the table waits meanwhile.
SECONDS_A_MILLION = 5
_DAY = timedelta(days=1)


class Rolling(NamedTuple):
    """A table that rolls, by its sweep.

    Rows made before `before(now)` may be gone, None for never; partitions that `waiting` names
    stay. `finished_at` is when a row ends, "" when it is over from its making. `roll(until,
    moves_rows)` raises CannotRoll.
    """

    model: type[models.Model]
    sweep: str
    retention: Callable[[], timedelta]
    before: Callable[[datetime], datetime | None]
    waiting: Callable[[], Collection[str]]
    finished_at: str
    roll: Callable[[datetime, bool], object]

    @property
    def name(self) -> str:
        return capfirst(str(self.model._meta.verbose_name_plural))


class Mover(NamedTuple):
    """A table whose ended rows move to an archive `after` their end, by its sweep."""

    model: type[models.Model]
    sweep: str
    after: Callable[[], timedelta]
    move: Callable[[datetime], int]


TableT = TypeVar("TableT", Rolling, Mover)


def _roll_journal(until: datetime, moves_rows: bool) -> object:
    return journal_retention.roll(until=until, moves_rows=moves_rows)


def _roll_jobs(until: datetime, moves_rows: bool) -> object:
    jobs_roll.ROLLING.roll(moves_rows=moves_rows)
    return jobs_retention.forget(until=until, lag=jobs_roll.ROLLING.lag())


def _roll_dispatches(until: datetime, moves_rows: bool) -> object:
    dispatch_roll.ROLLING.roll(moves_rows=moves_rows)
    return dispatch_retention.purge(until=until, lag=dispatch_roll.ROLLING.lag())


def _archive(
    model: type[models.Model],
    sweep: str,
    retention: Callable[[], timedelta],
    roll: Callable[[datetime, bool], object],
) -> Rolling:
    def before(now: datetime) -> datetime | None:
        kept = retention()
        return now - kept if kept else None

    return Rolling(
        model, sweep, retention, before, lambda: load_position(sweep), "finished_at", roll
    )


ROLLING = (
    Rolling(
        JournalEntry,
        "journal.roll",
        lambda: journal_conf.JOURNAL_RETENTION,
        journal_retention.kept_from,
        list,
        "",
        _roll_journal,
    ),
    _archive(ArchivedJob, jobs_roll.ROLLING.sweep, lambda: jobs_conf.JOB_RETENTION, _roll_jobs),
    _archive(
        ArchivedDispatch,
        dispatch_roll.ROLLING.sweep,
        lambda: dispatch_conf.DISPATCH_RETENTION,
        _roll_dispatches,
    ),
)
# Dispatches are none of them: those of a once task wait for that, however long it stands.
MOVERS = (
    Mover(
        Job,
        jobs_archive.SWEEP,
        lambda: jobs_conf.JOB_ARCHIVE_AFTER,
        lambda until: jobs_archive.archive_ended(until=until),
    ),
)


def _one(of: Sequence[TableT], subject: str) -> TableT:
    for each in of:
        if each.model._meta.db_table == subject:
            return each
    raise NotFound(_("There is no table {name} of this kind.", name=subject[:80]))


def _named(each: Rolling | Mover) -> str:
    return str(each.model._meta.db_table)


# --- G1: rows past their retention ----------------------------------------------------------------
def _overdue(sheet: FactSheet) -> Iterator[Reading]:
    now = sheet.now
    for each in ROLLING:
        before = each.before(now)
        oldest = None if before is None else _oldest(sheet, each, before - OVERDUE)
        if before is not None and oldest is not None:
            text = _(
                "{table}: rows from before {at} are still there, {days} days past their retention.",
                table=each.name,
                at=oldest,
                days=(before - oldest) // _DAY,
            )
            yield Reading(TABLE, _named(each), text=text)


def _oldest(sheet: FactSheet, of: Rolling, before: datetime) -> datetime | None:
    """The oldest instant before this one at which rows that are still there ended or were made;
    None without any."""
    parts = sheet.partitions_of(of.model)
    if parts:
        waiting = of.waiting()
        ends = [
            each.end for each in partitions.ended_before(parts, before) if each.name not in waiting
        ]
        return min((end for end in ends if end is not None), default=None)
    if not of.finished_at:
        [(first,)] = fetch(f"SELECT MIN(id) FROM {table(of.model)}")
        made = None if first is None else ids.made_at(first)
        return made if made is not None and made < before else None
    return _first_end(of.model, of.finished_at, 0, before)


def _first_end(
    model: type[models.Model], column: str, after: int, before: datetime
) -> datetime | None:
    """The earliest end before the instant among the first rows after the id."""
    rows = fetch(
        f"SELECT {column} FROM {table(model)} WHERE id > %s AND id < %s ORDER BY id LIMIT {READ}",
        [after, ids.lowest_id_at(before)],
    )
    ends = [instant(at) for (at,) in rows if at is not None]
    return min((at for at in ends if at < before), default=None)


def _foresee_drop(of: Rolling) -> Message:
    before = of.before(clock.now())
    parts = partitions.partitions_of(of.model)
    if before is None:
        return _("{table} is kept for ever; nothing goes.", table=of.name)
    if not parts:
        return _(
            "It removes rows of {table} from before {at}, for ten seconds; the sweep goes on.",
            table=of.name,
            at=before,
        )
    over = partitions.ended_before(parts, before)
    return _(
        "It drops partitions of {table}: {count}, about {rows} rows from before {at}.",
        count=len(over),
        table=of.name,
        rows=f"{sum(each.rows for each in over):,}",
        at=before,
    )


# --- G2, G3: partitions that are missing, and rows behind the last one ----------------------------
def _missing(of: Rolling, parts: Sequence[Partition], now: datetime) -> list[datetime]:
    return partitions.missing(of.model, parts, now, of.retention()) if parts else []


def _not_cut(sheet: FactSheet) -> Iterator[Reading]:
    now = sheet.now
    for each in ROLLING:
        parts = sheet.partitions_of(each.model)
        # A partition that was missing CUT_WITHIN ago should have been cut by the sweep.
        if _missing(each, parts, now - CUT_WITHIN):
            ahead = max((p.end for p in parts if p.end is not None), default=now)
            text = _(
                "{table}: partitions are cut for {hours} h ahead only; beyond, rows come into one "
                "that is slow to cut.",
                table=each.name,
                hours=max(0, (ahead - now) // timedelta(hours=1)),
            )
            yield Reading(TABLE, _named(each), text=text)


def _foresee_cut(of: Rolling) -> Message:
    parts = partitions.partitions_of(of.model)
    wanted = _missing(of, parts, clock.now())
    if not wanted:
        return _("{table} has all its partitions; nothing is to be done.", table=of.name)
    behind = _behind(of, parts)
    return _(
        "It cuts partitions of {table} ahead: {count}, up to {at}. It moves about {rows} rows, for "
        "which those who write the table wait about {seconds} s.",
        count=len(wanted),
        table=of.name,
        at=max(wanted),
        rows=f"{behind:,}",
        seconds=_seconds(behind),
    )


def _behind(of: Rolling, parts: Sequence[Partition]) -> int:
    """About how many rows lie behind the last boundary; 0 only if none does."""
    ends = [each.end for each in parts if each.end is not None]
    low = ids.lowest_id_at(max(ends)) if ends else 0
    if not parts or not fetch(f"SELECT 1 FROM {table(of.model)} WHERE id >= %s LIMIT 1", [low]):
        return 0
    return max(1, parts[-1].rows)


def _seconds(rows: int) -> int:
    return -(-rows * SECONDS_A_MILLION // 1_000_000)


def _behind_the_last(sheet: FactSheet) -> Iterator[Reading]:
    for each in ROLLING:
        rows = _behind(each, sheet.partitions_of(each.model))
        if rows:
            text = _(
                "{table}: about {rows} rows lie behind the last partition. To move them takes "
                "about {seconds} s, for which those who write the table wait.",
                table=each.name,
                rows=f"{rows:,}",
                seconds=_seconds(rows),
            )
            yield Reading(TABLE, _named(each), text=text)


def _roll(of: Rolling, until: datetime, *, moves_rows: bool = False) -> Message:
    try:
        of.roll(until, moves_rows)
    except CannotRoll as error:
        raise Conflict(_("It did not work: {why}", why=str(error))) from error
    return _("The sweep of {table} has run.", table=of.name)


# --- G6: a mover that does not keep up ------------------------------------------------------------
def _behind_movers(sheet: FactSheet) -> Iterator[Reading]:
    now = sheet.now
    for each in MOVERS:
        after = int(load_position(each.sweep).get("after", 0))
        first = _first_end(each.model, "finished_at", after, now - each.after() - LATE)
        if first is not None:
            text = _(
                "{table}: what ended at {at} is not among the older ones yet and is {days} d "
                "late. More ends than is moved.",
                table=capfirst(str(each.model._meta.verbose_name_plural)),
                at=first,
                days=(now - each.after() - first) // _DAY,
            )
            yield Reading(TABLE, _named(each), text=text)


def _foresee_move(of: Mover) -> Message:
    return _(
        "It moves to the older ones what ended before {at}, for ten seconds; the sweep goes on.",
        at=clock.now() - of.after(),
    )


def _move(of: Mover, until: datetime) -> Message:
    return _("Moved to the older ones: {count}.", count=f"{of.move(until):,}")


# --- what mends them ------------------------------------------------------------------------------
def _fix(
    key: str,
    label: Message,
    of: Sequence[TableT],
    foresee: Callable[[TableT], Message],
    act: Callable[[TableT, datetime], Message],
) -> Fix:
    """The fix that does the work of the sweep of the table, for MAX_WORK at most; Conflict while
    the sweep runs."""

    def run(subject: str, actor: str, reason: str) -> Message:
        found = _one(of, subject)
        with sweep_lease(found.sweep, at_most=_MAX_TURN) as mine:
            if not mine:
                raise Conflict(
                    _("The sweep {sweep} runs just now; look again in a minute.", sweep=found.sweep)
                )
            _record(actor, reason, {"detector": key, "finding": subject})
            return act(found, clock.now() + MAX_WORK)

    return Fix(label=label, foresee=lambda subject: foresee(_one(of, subject)), act=run)


@transactional
def _record(actor: str, reason: str, data: dict[str, str]) -> None:
    """Write to the journal that somebody has fixed a finding, before it is done."""
    journal.note(FIXED, data, at=clock.now(), actor=actor, reason=reason)


OVERDUE_ROWS = Watch(
    key="G1",
    title=_("Rows go when their retention is over"),
    read=_overdue,
    fix=_fix("G1", _("Run the sweep now"), ROLLING, _foresee_drop, _roll),
)
MISSING_PARTITIONS = Watch(
    key="G2",
    title=_("Partitions are cut ahead"),
    read=_not_cut,
    fix=_fix("G2", _("Cut them now"), ROLLING, _foresee_cut, _roll),
)
ROWS_BEHIND = Watch(
    key="G3",
    title=_("No row lies behind the last partition"),
    read=_behind_the_last,
    fix=_fix("G3", _("Move them now"), ROLLING, _foresee_cut, partial(_roll, moves_rows=True)),
)
LATE_MOVER = Watch(
    key="G6",
    title=_("Older rows are moved as fast as rows end"),
    read=_behind_movers,
    fix=_fix("G6", _("Move for ten seconds"), MOVERS, _foresee_move, _move),
)
