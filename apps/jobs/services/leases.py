"""Leases of running jobs: renewal, checkpoints and progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection

from apps.common import clock
from apps.common.db import execute, placeholders, table
from apps.common.errors import Conflict, Invalid, NotFound, PlatformError
from apps.common.json_rules import check_json, check_size
from apps.common.messages import Message as _
from apps.common.rows import update_rows
from apps.jobs.errors import LeaseLost, not_held
from apps.jobs.models import Job
from apps.jobs.rules.caller import IN_HOUSE, Caller
from apps.jobs.rules.job_log import LogLines
from apps.jobs.rules.transitions import RUNNING
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services import job_log
from apps.jobs.services.find import holders_of
from apps.jobs.services.rows import read_jobs
from apps.jobs.services.type_snapshots import type_snapshots

NOTHING: Any = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A heartbeat of a worker for one job that it holds, with the work done so far.

    `checkpoint` is any JSON; `sequence` grows with every checkpoint of a stage, and counts on by
    itself if it is None. `progress` is 0 to 100. `log` is what the attempt has logged meanwhile.
    `lease` is how long the worker is believed now; None: as long as the type says.
    """

    id: int
    token: str
    checkpoint: Any = NOTHING
    sequence: int | None = None
    progress: float | None = None
    log: LogLines | None = None
    lease: timedelta | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it does not move the deadline."""
        return self.checkpoint is NOTHING and self.progress is None


class Renewed(NamedTuple):
    """A lease that lasts until then at least; whether its job is to be cancelled.

    `refused`: why the checkpoint was not kept.
    """

    until: datetime
    cancel_requested: bool
    refused: PlatformError | None = None


class _LeasedJob(NamedTuple):
    """The row of a job that a heartbeat names."""

    id: int
    type: str
    client: str
    status: str
    lease_token: str
    cancel_requested: bool
    sequence: int
    attempts: int
    holds: int
    lease_until: datetime | None
    hard_end_at: datetime | None


def renew(
    *, heartbeats: Sequence[Heartbeat], caller: Caller = IN_HOUSE
) -> list[Renewed | PlatformError]:
    """Renew the leases of these jobs, up to the deadline of each attempt; the answers in order.

    A checkpoint or progress moves the deadline. After its deadline an attempt is not renewed: its
    lease is lost. A job that the caller never held is NotFound. Of heartbeats with one id and token
    the first counts. There is no transaction: a process that freezes here must not keep its jobs
    locked, or the rescue could not end them.
    """
    if not heartbeats:
        return []
    now = clock.now()
    held = read_jobs(_LeasedJob, {heartbeat.id for heartbeat in heartbeats})
    types = type_snapshots({row.type for row in held.values()})
    archived = holders_of({heartbeat.id for heartbeat in heartbeats} - held.keys())
    # By id and token: of two tokens of a job, one may still be good.
    answers: dict[tuple[int, str], Renewed | PlatformError] = {}
    plain: dict[str, dict[int, tuple[Heartbeat, Renewed]]] = {}
    for heartbeat in heartbeats:
        key = heartbeat.id, heartbeat.token
        if key in answers:
            continue
        row = held.get(heartbeat.id)
        if heartbeat.id in archived and caller.holds(*archived[heartbeat.id]):
            answers[key] = _lease_lost(heartbeat.id)
        elif row is None or not caller.holds(row.client, row.type) or row.type not in types:
            answers[key] = not_held(heartbeat.id)
        elif (
            row.status != RUNNING
            or row.lease_token != heartbeat.token
            or _is_past_deadline(row, now)
        ):
            answers[key] = _lease_lost(heartbeat.id)
        elif heartbeat.is_plain:
            renewed = _renewal(row, heartbeat, types[row.type], now)
            answers[key] = renewed
            plain.setdefault(row.type, {})[heartbeat.id] = heartbeat, renewed
        else:
            answers[key] = _keep(row, heartbeat, types[row.type], now)
    for of_type in plain.values():
        for number, lost in _extend(of_type).items():
            answers[number, of_type[number][0].token] = lost
    _keep_logs(heartbeats, answers, held)
    return [answers[heartbeat.id, heartbeat.token] for heartbeat in heartbeats]


def _keep_logs(
    heartbeats: Sequence[Heartbeat],
    answers: Mapping[tuple[int, str], Renewed | PlatformError],
    held: Mapping[int, _LeasedJob],
) -> None:
    """Keep what attempts have logged that are still under way."""
    logs = {
        (heartbeat.id, heartbeat.token): job_log.AttemptLines(
            heartbeat.id, held[heartbeat.id].holds, held[heartbeat.id].attempts, heartbeat.log
        )
        for heartbeat in reversed(heartbeats)
        if heartbeat.log and isinstance(answers[heartbeat.id, heartbeat.token], Renewed)
    }
    if logs:
        job_log.write([*logs.values()])


def _is_past_deadline(row: _LeasedJob, now: datetime) -> bool:
    """Whether the attempt is past its deadline."""
    return row.hard_end_at is None or row.hard_end_at <= now


def _lease_lost(number: int) -> LeaseLost:
    return LeaseLost(
        _(
            "This token does not hold job {number}: it was taken away, or the token is of another "
            "job; stop working on it.",
            number=number,
        )
    )


def _renewal(row: _LeasedJob, heartbeat: Heartbeat, type_: TypeSnapshot, now: datetime) -> Renewed:
    until = min(now + (heartbeat.lease or type_.lease), row.hard_end_at or now)
    return Renewed(max(until, row.lease_until or until), bool(row.cancel_requested))


def _extend(
    heartbeats: Mapping[int, tuple[Heartbeat, Renewed]],
) -> dict[int, PlatformError]:
    """Renew the leases by one statement; returns the errors of those that are lost after all."""
    ids = sorted(heartbeats)
    tokens = [heartbeats[number][0].token for number in ids]
    most = max(renewed.until for _, renewed in heartbeats.values())
    least, greatest = ("LEAST", "GREATEST") if connection.vendor == "mysql" else ("MIN", "MAX")
    if len(set(tokens)) == 1:
        token, guards = "%s", list[Any](tokens[:1])
    else:
        token = f"CASE id{' WHEN %s THEN %s' * len(ids)} END"
        guards = [part for pair in zip(ids, tokens, strict=True) for part in pair]
    changed = execute(
        f"UPDATE {table(Job)} "
        f"SET lease_until = {greatest}(lease_until, {least}(%s, hard_end_at)) "
        f"WHERE id IN ({placeholders(len(ids))}) AND status = %s AND lease_token = {token}",
        [most, *ids, RUNNING, *guards],
    )
    if changed == len(ids):
        return {}
    after = read_jobs(_LeasedJob, ids)
    return {
        number: _lease_lost(number)
        for number, (heartbeat, _) in heartbeats.items()
        if number not in after
        or (after[number].status, after[number].lease_token) != (RUNNING, heartbeat.token)
    }


def _keep(
    row: _LeasedJob, heartbeat: Heartbeat, type_: TypeSnapshot, now: datetime
) -> Renewed | PlatformError:
    """Keep a checkpoint or progress, and move the deadline."""
    values: dict[str, Any] = {}
    try:
        values |= _percent(heartbeat.progress)
        if heartbeat.checkpoint is not NOTHING:
            values |= _checkpoint(row, heartbeat)
    except PlatformError as error:
        # The worker is alive all the same.
        renewed = _renewal(row, heartbeat, type_, now)
        lost = _extend({row.id: (heartbeat, renewed)})
        return lost.get(row.id) or renewed._replace(refused=error)
    deadline = now + type_.max_processing
    until = min(now + (heartbeat.lease or type_.lease), deadline)
    if row.client and row.lease_until == row.hard_end_at:
        # Its worker promises no heartbeats.
        until = deadline
    until = max(until, row.lease_until or until)
    guard, parameters = "status = %s AND lease_token = %s", [RUNNING, heartbeat.token]
    if "sequence" in values:
        guard, parameters = f"{guard} AND sequence <= %s", [*parameters, values["sequence"]]
    changes = {**values, "lease_until": until, "hard_end_at": deadline}
    if update_rows(Job, {row.id: changes}, guard=guard, parameters=parameters):
        return Renewed(until, bool(row.cancel_requested))
    after = read_jobs(_LeasedJob, [row.id]).get(row.id)
    if after is None or (after.status, after.lease_token) != (RUNNING, heartbeat.token):
        return _lease_lost(row.id)
    # A later checkpoint has come meanwhile, so this one is refused, and the lease lives.
    return _keep(after, heartbeat, type_, now)


def _checkpoint(row: _LeasedJob, heartbeat: Heartbeat) -> dict[str, Any]:
    check_json(heartbeat.checkpoint, field="checkpoint")
    check_size(heartbeat.checkpoint, field="checkpoint")
    sequence = row.sequence + 1 if heartbeat.sequence is None else heartbeat.sequence
    if sequence < row.sequence:
        raise Conflict(
            _(
                "Checkpoint {kept} is kept already; {given} comes too late.",
                kept=row.sequence,
                given=sequence,
            )
        )
    if sequence == row.sequence:
        # A repeat, whose data is the same.
        return {}
    return {"checkpoint": heartbeat.checkpoint, "sequence": sequence}


def _percent(percent: float | None) -> dict[str, int]:
    if percent is None:
        return {}
    if not 0 <= percent <= 100:
        raise Invalid.field("progress", f"{percent} is no percentage; give 0 to 100.")
    return {"progress": int(percent)}


def checkpoint(
    *, job: int, token: str, data: Any, sequence: int, progress: float | None = None
) -> bool:
    """Store a checkpoint; extend the lease and the deadline. Whether the job is to be cancelled.

    LeaseLost when the worker has lost the job; another PlatformError when it cannot be stored.
    """
    return _store(
        Heartbeat(id=job, token=token, checkpoint=data, sequence=sequence, progress=progress)
    )


def progress(*, job: int, token: str, percent: float) -> bool:
    """Store the progress, 0 to 100 without decimals; else like a checkpoint."""
    return _store(Heartbeat(id=job, token=token, progress=percent))


def log(*, job: int, token: str, added: LogLines) -> bool:
    """Keep what the attempt has logged; else like a checkpoint, but the deadline stays."""
    return _store(Heartbeat(id=job, token=token, log=added))


def _store(heartbeat: Heartbeat) -> bool:
    [answer] = renew(heartbeats=[heartbeat])
    if isinstance(answer, NotFound):
        raise _lease_lost(heartbeat.id)
    if isinstance(answer, PlatformError):
        raise answer
    if answer.refused:
        raise answer.refused
    return answer.cancel_requested
