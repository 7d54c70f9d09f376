"""The filters of the list of runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from apps.common.admin.display import labelled
from apps.common.admin.filters import DayFilter, FormFilter, InstantFilter, list_filters
from apps.flows.models import OPEN, FlowRun
from apps.flows.services.filters import RunFilters

Status = FlowRun.Status
OPEN_ONES, ENDED = ",".join(OPEN), f"{Status.SUCCEEDED},{Status.CANCELLED}"


class StatusFilter(FormFilter):
    @property
    def tabs(self) -> Any:
        """What goes on, what somebody has to look at, and what is over."""
        return [
            (OPEN_ONES, pgettext_lazy("runs", "Running")),
            (Status.FAILED.value, Status.FAILED.label),
            (ENDED, pgettext_lazy("runs", "Ended")),
        ]

    def in_words(self) -> Iterator[tuple[str, str]]:
        # As the tabs name them.
        titles = dict(self.tabs)
        for name, said in super().in_words():
            value = str(self.used_parameters.get(name, ""))
            words = labelled(capfirst(str(self.title)), titles.get(value))
            yield name, words if value in titles else said


class StartedFilter(DayFilter):
    title = _("started")


FILTERS = (*list_filters(RunFilters, status=StatusFilter), StartedFilter, InstantFilter)
