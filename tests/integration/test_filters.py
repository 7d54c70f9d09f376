"""Each filter is declared once, and means the same wherever it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC
from typing import Any, NamedTuple

import pytest
from django.contrib import admin
from django.db.models import Model
from django.http import QueryDict
from django.utils.http import urlencode

from apps.bulk.api import bodies
from apps.bulk.api.bulk import RowsQuery
from apps.bulk.models import BulkRow
from apps.common import filtersets
from apps.common.admin.filters import DayFilter, FormFilter
from apps.common.api.filter_fields import FilterBody, FilterQuery
from apps.common.api.paging import PageQuery
from apps.common.errors import Invalid
from apps.common.filtersets import Door, RowFilters
from apps.dispatch.api.dispatches import DispatchQuery
from apps.dispatch.api.executors import ExecutorQuery
from apps.dispatch.api.tasks import ArchivedTaskQuery, OnceTaskQuery, TaskQuery
from apps.dispatch.models import ArchivedTask, Dispatch, Executor, OnceTask, RotateTask
from apps.dispatch.services import filtered
from apps.flows.api.runs import RunQuery
from apps.flows.models import FlowRun
from apps.flows.services.filters import RunFilters
from apps.jobs.api.jobs import JobQuery
from apps.jobs.models import Job, JobType
from apps.jobs.services.job_filters import JobFilters
from apps.schedules.api.schedules import ScheduleQuery
from apps.schedules.models import Schedule
from apps.schedules.services.filters import ScheduleFilters
from tests import factories

pytestmark = pytest.mark.django_db


class Filtered(NamedTuple):
    """Rows, and who reads their filters."""

    model: type[Model]
    filters: type[RowFilters]
    query: type[FilterQuery]
    body: type[FilterBody] | None = None


ROWS = (
    Filtered(Job, JobFilters, JobQuery, bodies.JobFilterBody),
    Filtered(Dispatch, filtered.DispatchFilters, DispatchQuery, bodies.DispatchFilterBody),
    Filtered(OnceTask, filtered.OnceTaskFilters, OnceTaskQuery, bodies.OnceTaskFilterBody),
    Filtered(RotateTask, filtered.RotateTaskFilters, TaskQuery, bodies.RotateTaskFilterBody),
    Filtered(ArchivedTask, filtered.ArchivedTaskFilters, ArchivedTaskQuery),
    Filtered(Executor, filtered.ExecutorFilters, ExecutorQuery),
    Filtered(Schedule, ScheduleFilters, ScheduleQuery),
    Filtered(FlowRun, RunFilters, RunQuery),
    Filtered(BulkRow, RowsQuery.filters, RowsQuery),
)
# The wire has it so: programs name one user, and to whom a task is addressed.
ONE_EXECUTOR = {(model, "executor") for model in (Dispatch, OnceTask, RotateTask)}
# What depends on the present or on who reads: the pages of lists and of REST look at rows for it.
FOUND_BY_PAGES = {
    (filtered.ExecutorFilters, "silent"),
    (filtered.OnceTaskFilters, "state"),
    (filtered.RotateTaskFilters, "state"),
}
# What each kind of parameter takes, and what it refuses.
SAMPLES: Mapping[type[filtersets.Parameter], tuple[Any, Any]] = {
    filtersets.Key: ("uid_ann", "a b"),
    filtersets.Id: ("7", "x"),
    filtersets.Number: (7, "x"),
    filtersets.WholeNumber: (7, 101),
    filtersets.Instant: ("2026-11-02T00:00:00Z", "2026-11-02"),
    filtersets.Text: ("uid_ann", "x" * 201),
}


def samples(each: Any) -> tuple[Any, Any]:
    if isinstance(each, filtersets.Choice):
        return str(each.choices[0][0]), "nonsense"
    if isinstance(each, filtersets.Payload):
        return f"{each.columns[0]}.a:1", "city:x"
    return next(pair for kind, pair in SAMPLES.items() if isinstance(each, kind))


def doors(of: Filtered, name: str) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Who takes the parameter of that name: each reads a value and narrows all rows."""
    rows: Any = of.model._default_manager.all()
    each, filters = of.filters.base_filters.get(name), of.filters

    def is_taken(at: Door) -> bool:
        return each is not None and bool(each.doors & at)

    if name in of.query.filters.of(Door.REST):

        def rest(value: Any) -> Any:
            query = of.query.check_query(QueryDict(urlencode({name: value})))
            return of.query.filters.narrow(rows, of.query.wanted(query))

        yield "REST", rest
    if is_taken(Door.BULK) and of.body is not None:
        body = of.body

        def bulk(value: Any) -> Any:
            is_list = isinstance(each, filtersets.Numbers | filtersets.Payload)
            given = [str(value)] if is_list else value
            wanted = filters.read(body.check({name: given}))
            assert filters.read(wanted.wire()) == wanted
            return filters.narrow(rows, wanted)

        yield "bulk", bulk
    if is_taken(Door.LIST | Door.ADDRESS):
        listed = each.listed or name

        def address(value: Any) -> Any:
            return filters.narrow(rows, filters.read_address({listed: str(value)}, UTC))

        yield "list", address
    if each is not None:

        def form(value: Any) -> Any:
            found = filters({name: str(value)}, queryset=rows)
            if not found.is_valid():
                raise Invalid.field(name, str(found.errors[name][0]))
            return found.qs

        yield "form", form


@pytest.mark.usefixtures("frozen_clock")
def test_a_parameter_means_the_same_at_each_door(subtests: pytest.Subtests) -> None:
    factories.user("uid_ann")
    factories.job_type("mail", lane=JobType.Lane.FAST)
    for of in ROWS:
        for name, each in {**of.query.filters.base_filters, **of.filters.base_filters}.items():
            if (of.filters, name) in FOUND_BY_PAGES:
                continue
            right, wrong = samples(each)
            with subtests.test(of.model.__name__, name=name):
                taken = dict(doors(of, name))
                if (of.model, name) in ONE_EXECUTOR:
                    del taken["REST"]
                meant = {door: str(narrow(right).query) for door, narrow in taken.items()}
                assert len({*meant.values()}) <= 1, meant
                assert all(" WHERE " in sql for sql in meant.values())
                if isinstance(each, filtered.ExecutorName):
                    # What is no name is no error of a program.
                    taken = {"list": taken["list"]}
                for door, narrow in taken.items():
                    with pytest.raises(Invalid) as refused:
                        narrow(wrong)
                    assert refused.value.errors[0].code == "invalid", door


@pytest.mark.both
def test_time_before_or_after_all_rows_means_all_of_them_at_each_door(
    subtests: pytest.Subtests,
) -> None:
    """Programs say "for ever" so, and send the empty times of their languages."""
    made = factories.job("mail")
    Job.objects.update(finished_at=made.created_at)
    for of in ROWS:
        for name, each in of.filters.base_filters.items():
            if isinstance(each, filtersets.Instant):
                for text, end in (
                    ("0001-01-01T00:00:00Z", "_after"),
                    ("9999-12-31T23:59:59-23:59", "_before"),
                ):
                    meant = [made] if of.model is Job and name.endswith(end) else []
                    for door, narrow in doors(of, name):
                        with subtests.test(of.model.__name__, name=name, text=text, door=door):
                            assert [*narrow(text)] == meant


def test_programs_have_no_filters_of_their_own() -> None:
    assert {*_below(FilterQuery)} == {of.query for of in ROWS}
    assert {*_below(FilterBody)} == {of.body for of in ROWS if of.body}
    own = {
        query.__name__: names
        for query in _below(PageQuery)
        if (names := query._declared_fields.keys() - PageQuery._declared_fields.keys())
    }
    assert own == {"JobQuery": {"archived"}, "DispatchQuery": {"archived"}}
    assert {body.__name__: [*body._declared_fields] for body in _below(FilterBody)} == {
        of.body.__name__: ["run"] for of in ROWS if of.body
    }


def test_lists_draw_what_is_declared_and_all_of_it(subtests: pytest.Subtests) -> None:
    for model, model_admin in admin.site._registry.items():
        drawn: dict[Any, list[str]] = {}
        for each in model_admin.list_filter:
            if isinstance(each, type) and issubclass(each, FormFilter):
                if not issubclass(each, DayFilter):
                    drawn.setdefault(each.filters, []).extend(each.parameters)
            else:
                assert not model.__module__.startswith("apps."), (model, each)
        for filters, names in drawn.items():
            with subtests.test(model.__name__):
                assert sorted(names) == sorted(filters.listed())


def _below(kind: Any) -> Iterator[Any]:
    for each in kind.__subclasses__():
        if each.__module__.startswith("apps."):
            if each not in (FilterQuery, FilterBody):
                yield each
            yield from _below(each)
