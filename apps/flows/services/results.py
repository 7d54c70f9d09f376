"""Results of the jobs of a step, page by page: of the handle that `$results` puts into a context.

for number, status, result in results_of(context["photos"]):
    …
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from apps.flows.services.programs import BLOCK, Ended, page_of
from apps.flows.services.start import find_run, find_step


def results_of(handle: Mapping[str, Any]) -> Iterator[Ended]:
    """All jobs of the step in their order, each with its status and result; 500 are read at once.

    NotFound when the run has been forgotten.
    """
    row = find_step(find_run(int(handle["run"])), handle["step"])
    after = 0
    while page := page_of(row, after=after):
        yield from page
        if len(page) < BLOCK:
            return
        after = page[-1].id
