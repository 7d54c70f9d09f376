"""Why attempts, jobs and workers ended, as the platform says it in the journal.

The text is stored in English, as those of `failures`. Pages find its template here.
"""

from __future__ import annotations

from apps.common.messages import Message
from apps.common.messages import Message as _

WORKER_LOST = _("its worker went offline")
NOT_STARTED = _("its worker went offline before it started")
WORKER_STOPPED = _("its worker stopped before it ended")
NO_HEARTBEAT = _("it sent no heartbeat")
PROCESS_GONE = _("its process is gone")
PAST_DEADLINE = _("past its deadline")
NO_RETRY = _("its handler asked for no retry")
LAST_ATTEMPT = _("try {number} of {max} was the last")
ATTEMPTS_USED = _("{used} of {max} tries are used")
EXPIRED = _("it has expired")
EXPIRED_BEFORE = _("it has expired: it was scheduled for {time}")
REPORTED_LATE = _("reported {end} after its lease had ended")
NO_TYPE = _("there is no job type {type} any more")
NOT_NAMED = _("not named by rebuild {rebuild}")
REPLACED = _("a submission with its key replaced it")
MOVED = _("a submission with its key moved it to a later time")

ALL = tuple(each for each in list(globals().values()) if isinstance(each, Message))
