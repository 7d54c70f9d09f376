"""The clock of the database, and transactions that stay open."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.db import OperationalError, connection

from apps.common import clock, ids
from apps.common.db import fetch, table
from apps.common.messages import Message as _
from apps.journal.models import JournalEntry
from apps.reports.services.fact_sheet import FactSheet
from apps.reports.watches.base import NotKnown, Reading, Watch
from apps.reports.watches.subjects import CLOCK, TRANSACTION

MAX_DRIFT = timedelta(seconds=0.5)
LONGEST = timedelta(seconds=60)
MAX_TRANSACTIONS = 20
_MAX_QUERY = 120
# Why the server does not show its transactions, by the numbers of its errors.
_NO_PROCESS = _("The database user of the platform lacks the privilege PROCESS.")
_NOT_SHOWN = {
    **dict.fromkeys((1044, 1142, 1227), _NO_PROCESS),
    # It keeps the statement of each in letters of three bytes.
    3854: _(
        "MySQL shows no transactions while one of them runs a statement with emoji or binary "
        "values; look again."
    ),
}


def _clocks(sheet: FactSheet) -> Iterator[Reading]:
    now = sheet.now
    drift = clock.drift()
    if abs(drift) > MAX_DRIFT:
        text = _(
            "The clock of this machine and that of the database are {seconds} s apart. Let NTP set "
            "both; the platform goes by that of the database.",
            seconds=f"{abs(drift).total_seconds():.1f}",
        )
        yield Reading(CLOCK, "drift", text=text)
    [(newest,)] = fetch(f"SELECT MAX(id) FROM {table(JournalEntry)}")
    ahead = timedelta() if newest is None else ids.made_at(newest) - now
    if ahead > MAX_DRIFT:
        text = _(
            "The newest journal entry was made {seconds} s after now: the clock of the database "
            "was set back, or another server took over. Until then times stand still.",
            seconds=f"{ahead.total_seconds():.1f}",
        )
        yield Reading(CLOCK, "jump", text=text)


def _open_transactions(sheet: FactSheet) -> Iterator[Reading]:
    if connection.vendor != "mysql":
        return
    # The server writes these times in its own zone.
    age = "TIMESTAMPDIFF(SECOND, trx_started, CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM'))"
    try:
        rows = fetch(
            f"SELECT trx_mysql_thread_id, {age}, trx_query FROM information_schema.innodb_trx "
            f"WHERE {age} > %s ORDER BY trx_started LIMIT {MAX_TRANSACTIONS}",
            [LONGEST.total_seconds()],
        )
    except OperationalError as error:
        if error.args and error.args[0] in _NOT_SHOWN:
            raise NotKnown(_NOT_SHOWN[error.args[0]]) from error
        raise
    for thread, seconds, query in rows:
        text = _(
            "A transaction of connection {thread} has been open for {seconds} s and holds back "
            "changes of tables; KILL {thread} ends it. It runs: {query}",
            thread=thread,
            seconds=int(seconds),
            query=(query or "–")[:_MAX_QUERY],
        )
        yield Reading(TRANSACTION, str(thread), text=text)


CLOCKS = Watch(key="G8", title=_("The clocks agree"), read=_clocks)
OPEN_TRANSACTIONS = Watch(key="G10", title=_("No transaction stays open"), read=_open_transactions)
