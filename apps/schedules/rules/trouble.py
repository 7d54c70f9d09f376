"""Whether something is wrong with the runs of a schedule."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

# The outcome of a run: the end of its job, or why it has none.
OPEN = ""
SUCCEEDED, FAILED, CANCELLED, GONE = "succeeded", "failed", "cancelled", "gone"
SKIPPED, REFUSED = "skipped", "refused"

NONE = ""
# The newest run made no job.
UNMADE = "unmade"
# The jobs of the last IN_ROW runs that are over failed.
FAILING = "failing"
IN_ROW = 3


def trouble_of(outcomes: Iterable[str]) -> str:
    """The trouble of a schedule by the outcomes of its runs, the newest first. Skipped runs say
    nothing, and open ones only that a job was made."""
    known = [each for each in outcomes if each != SKIPPED]
    if known[:1] == [REFUSED]:
        return UNMADE
    over = [*islice((each for each in known if each != OPEN), IN_ROW)]
    return FAILING if over == [FAILED] * IN_ROW else NONE
