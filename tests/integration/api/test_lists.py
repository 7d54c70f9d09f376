"""Every list: keyset pages newest first, stable while rows come, few queries. S0.31, S2.13."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connection
from django.db.models import Model
from django.test.utils import CaptureQueriesContext
from drf_spectacular.generators import SchemaGenerator

from apps.common.api import paging
from apps.dispatch.models import Dispatch, Executor, OnceTask, RotateTask, Template
from apps.dispatch.services.templates import put_template
from apps.flows.models import Flow
from apps.jobs.models import Job, JobType, Worker
from apps.schedules.models import Schedule
from tests import callback, factories, flow_pages
from tests.flows import job, started, wait
from tests.integration.api.contract import ApiFor, ContractClient, mistakes, pages
from tests.jobs import job_type

pytestmark = [pytest.mark.django_db, pytest.mark.both]

Adder = Callable[[int], None]
# Needs nothing else.
FLOW = {"steps": [wait("w")]}


def repeated(make: Callable[[], Any]) -> Adder:
    def add(count: int) -> None:
        for _ in range(count):
            make()

    return add


def numbered(table: type[Model], make: Callable[[str], Any]) -> Adder:
    """Each row gets a number, of three digits, that none has had before."""

    def add(count: int) -> None:
        first = table._default_manager.count()
        for number in range(first, first + count):
            make(f"{number:03}")

    return add


def add_once_tasks(count: int) -> None:
    executor = Executor.objects.filter(name="uid_alice").first() or factories.user()
    template = factories.template("photo-check")
    for _ in range(count):
        factories.once_task(executor, template=template, params={"shop": "1"})


def add_rotations(count: int) -> None:
    executor = Executor.objects.filter(name="uid_alice").first() or factories.user()
    for _ in range(count):
        factories.rotation(executor)


def add_archived_tasks(count: int) -> None:
    executor = Executor.objects.filter(name="uid_alice").first() or factories.user()
    for _ in range(count):
        factories.archived_task("once", executor)


def end_dispatch(number: str) -> None:
    """Of a user of its own; pulled and called back at once."""
    user = factories.user(f"uid_{number}")
    factories.once_task(user)
    taken = callback.take_next(user)
    assert isinstance(taken, Dispatch)
    callback.call_back(executor=user, number=taken.pk, outcome="succeeded")


add_executors = numbered(Executor, lambda number: factories.user(f"uid_{number}"))
add_templates = numbered(Template, lambda number: factories.template(f"template-{number}"))
add_types = numbered(JobType, lambda number: factories.job_type(f"type-{number}"))
add_workers = numbered(Worker, lambda number: factories.worker(f"host-{number}:1"))
add_flows = numbered(Flow, lambda number: flow_pages.made(f"flow-{number}", FLOW))
add_dispatches = numbered(Dispatch, end_dispatch)
LISTS: dict[str, tuple[Adder, str]] = {
    "/api/v1/executors/": (add_executors, "name"),
    "/api/v1/templates/": (add_templates, "name"),
    "/api/v1/once-tasks/": (add_once_tasks, "id"),
    "/api/v1/rotate-tasks/": (add_rotations, "id"),
    "/api/v1/dispatches/": (add_dispatches, "number"),
    "/api/v1/jobs/": (repeated(factories.job), "id"),
    "/api/v1/job-types/": (add_types, "name"),
    "/api/v1/schedules/": (repeated(factories.schedule), "id"),
    "/api/v1/flows/": (add_flows, "name"),
    "/api/v1/flow-runs/": (repeated(lambda: started(wait("w"))), "id"),
    "/api/v1/workers/": (add_workers, "name"),
    "/api/v1/archived-tasks/": (add_archived_tasks, "id"),
}
# These are about one row, and have tests of their own.
OF_ONE_ROW = {
    "/api/v1/bulk/{number}/rows/",
    "/api/v1/jobs/{number}/journal/",
    "/api/v1/schedules/{id}/runs/",
}
EVERY_LIST = pytest.mark.parametrize("path", LISTS)


def keys(path: str, answer: Any) -> list[Any]:
    return [row[LISTS[path][1]] for row in answer.json()["results"]]


def test_every_list_is_walked_here() -> None:
    """A list that nobody had looked at answered with all that its rows hold."""
    paged = {
        path
        for path, operations in SchemaGenerator()
        .get_schema(request=None, public=True)["paths"]
        .items()
        if any(each["name"] == "cursor" for each in operations.get("get", {}).get("parameters", ()))
    }
    assert paged == {*LISTS, *OF_ONE_ROW}


def test_empty_list_has_no_next(api: ContractClient) -> None:
    for path in LISTS:
        assert api.get(path).json() == {"next": None, "results": []}, path


@EVERY_LIST
def test_pages_are_walked_newest_first_while_rows_are_added(api: ContractClient, path: str) -> None:
    """S0.31: each row there at the start once, none of those that came later, none shifted."""
    add, _ = LISTS[path]
    add(7)
    at_first = keys(path, api.get(path))
    walked: list[Any] = []

    for answer in pages(api, path, limit=2):
        walked.append(keys(path, answer))
        add(1)

    assert [len(page) for page in walked] == [2, 2, 2, 1]
    assert [key for page in walked for key in page] == at_first
    assert len(set(at_first)) == 7


@EVERY_LIST
def test_last_full_page_says_so(api: ContractClient, path: str) -> None:
    """No empty page follows a full one; `next` is an address on this server."""
    LISTS[path][0](4)

    address = urlsplit(api.get(path, limit=1).json()["next"])
    assert (address.scheme, address.netloc, address.path) == ("", "", path)
    assert set(parse_qs(address.query)) == {"limit", "cursor"}

    assert [len(keys(path, answer)) for answer in pages(api, path, limit=2)] == [2, 2]


# The lists of rows that may hold much, and where.
LARGE: dict[str, tuple[Any, str]] = {
    "/api/v1/templates/": (Template, "schema"),
    "/api/v1/once-tasks/": (OnceTask, "params"),
    "/api/v1/rotate-tasks/": (RotateTask, "params"),
    "/api/v1/dispatches/": (Dispatch, "result"),
    "/api/v1/jobs/": (Job, "result"),
    "/api/v1/job-types/": (JobType, "params_schema"),
    "/api/v1/schedules/": (Schedule, "context"),
    "/api/v1/flows/": (Flow, "definition"),
}


@pytest.mark.parametrize("path", LARGE)
def test_page_of_large_rows_is_shorter_and_the_next_goes_on(
    api: ContractClient, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 tasks with params of 250 KB took 38 s, and four such requests ended the web process."""
    monkeypatch.setattr(paging, "MAX_LETTERS", 50_000)
    LISTS[path][0](5)
    at_first = keys(path, api.get(path))
    model, column = LARGE[path]
    large: list[tuple[Any, list[int]]] = [("x" * 20_000, [2, 2, 1]), ("x" * 90_000, [1] * 5)]
    # 19 rows of short texts, each looked at for secrets, took 4 s.
    large += [(["a="] * 1_900, [2, 2, 1]), ([1] * 2_200, [2, 2, 1])]
    for value, sizes in large:
        content: Any = {"description": value, "more": [["and"], 1]}
        if model is Flow:
            content = {"steps": [job("a", context=content)]}
        model._base_manager.update(**{column: content})

        walked = [keys(path, answer) for answer in pages(api, path, limit=100)]

        assert [len(page) for page in walked] == sizes
        assert [key for page in walked for key in page] == at_first


def test_nothing_is_left_out_that_gets_another_version_meanwhile(api: ContractClient) -> None:
    """A flow that was saved during the walk went to the begin of the list."""
    saves: dict[str, Callable[[str, str], Any]] = {
        "/api/v1/templates/": lambda name, text: factories.template(
            name, {"type": "object", "description": text}
        ),
        "/api/v1/flows/": lambda name, text: flow_pages.made(name, FLOW, title=text),
    }
    for path, save in saves.items():
        LISTS[path][0](5)
        at_first = keys(path, api.get(path))
        walked: list[Any] = []
        for answer in pages(api, path, limit=2):
            walked += keys(path, answer)
            save(at_first[-1], f"after {len(walked)}")
        assert walked == at_first


def test_bound_key_sees_its_flows_on_every_page(api_for: ApiFor) -> None:
    """It read the definitions of all flows, whatever the page was."""
    job_type("mail")
    job_type("other")
    for number in range(6):
        name = "other" if number % 2 else "mail"
        flow_pages.made(f"flow-{number}", {"steps": [job("a", type=name)]})
    bound = api_for(scopes=["read"], job_types=["mail"])

    walked = [keys("/api/v1/flows/", page) for page in pages(bound, "/api/v1/flows/", limit=2)]

    assert walked == [["flow-4"], ["flow-2"], ["flow-0"]]


def test_page_of_templates_goes_by_their_newest_versions(
    api: ContractClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 templates whose newest versions had 250 KB were one answer of 25 MB."""
    monkeypatch.setattr(paging, "MAX_LETTERS", 50_000)
    add_templates(4)
    for number in range(4):
        schema = {"type": "object", "description": "x" * 20_000}
        put_template(name=f"template-{number:03}", schema=schema, actor="ann")

    walked = [keys("/api/v1/templates/", page) for page in pages(api, "/api/v1/templates/")]

    assert walked == [["template-003", "template-002"], ["template-001", "template-000"]]


def test_page_of_filtered_large_rows_is_shorter_too(
    api: ContractClient, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.setattr(paging, "MAX_LETTERS", 50_000)
    add_once_tasks(5)
    add_rotations(5)
    large = {"shop": "1", "note": "x" * 20_000}
    for model in (OnceTask, RotateTask):
        model._base_manager.update(params=large)
    for path, filters in (
        ("/api/v1/once-tasks/", {"state": "open"}),
        ("/api/v1/once-tasks/", {"where": "params.shop:1"}),
        ("/api/v1/rotate-tasks/", {"where": "params.shop:1"}),
        ("/api/v1/rotate-tasks/", {"state": "open"}),
    ):
        with subtests.test(path, **filters):
            walked = [keys(path, answer) for answer in pages(api, path, limit=100, **filters)]
            assert [len(page) for page in walked] == [2, 2, 1]
            assert len({key for page in walked for key in page}) == 5


def test_limit_out_of_range_is_refused(api: ContractClient, subtests: pytest.Subtests) -> None:
    for path in LISTS:
        with subtests.test(path):
            for limit in ("0", "-1", "101", "1000000000", "abc", "", "1.0", " 1", "٥", "+5"):
                answer = api.get(path, limit=limit)

                assert (answer.status_code, answer.json()["code"]) == (400, "invalid"), limit
                assert mistakes(answer) == ["limit"], limit


@EVERY_LIST
def test_altered_cursor_is_refused(api: ContractClient, path: str) -> None:
    """Keyset only: no position that the server has not given for this list and these filters."""
    LISTS[path][0](3)
    given = parse_qs(urlsplit(api.get(path, limit=1).json()["next"]).query)["cursor"][0]
    altered = [given[:-1], given + "x", "x" + given, "MQ", "1:2:3", "\x00", "x" * 401, " ", ""]

    for cursor in altered:
        answer = api.get(path, limit=1, cursor=cursor)
        assert answer.status_code == 400, cursor
        assert mistakes(answer) == ["cursor"]


def test_cursor_of_another_list_or_filter_is_refused(api: ContractClient) -> None:
    """A cursor belongs to its path and filters."""
    for add in (add_dispatches, add_templates):
        add(3)
    following = api.get("/api/v1/executors/", limit=1, kind="user").json()["next"]
    cursor = parse_qs(urlsplit(following).query)["cursor"][0]

    assert api.get(following).status_code == 200
    for path, query in (
        ("/api/v1/executors/", {}),
        ("/api/v1/executors/", {"kind": "group"}),
        ("/api/v1/templates/", {}),
        ("/api/v1/dispatches/", {}),
        ("/api/v1/once-tasks/", {}),
    ):
        assert api.get(path, cursor=cursor, **query).status_code == 400


def test_unknown_or_doubled_parameter_is_refused(
    api: ContractClient, subtests: pytest.Subtests
) -> None:
    """No filter by any other name, no guess between two values."""
    unknown = ("offset=5", "page=2", "ordering=id", "format=api", "executor__name=x", "LIMIT=5")
    for path in LISTS:
        with subtests.test(path):
            for query in ("limit=1&limit=2", *unknown):
                answer = api.request("GET", f"{path}?{query}")

                assert mistakes(answer) == [query.partition("=")[0]]
                code = "unknown_field" if query in unknown else "invalid"
                assert answer.json()["code"] == code, query


def statements(call: Callable[[], Any]) -> list[str]:
    """The SQL of a call, without that for its key, which is cached for half a second."""
    with CaptureQueriesContext(connection) as captured:
        call()
    return [query["sql"] for query in captured if "access_apiclient" not in query["sql"]]


@EVERY_LIST
def test_fifty_rows_are_a_page_and_cost_as_many_queries_as_one(
    api: ContractClient, path: str
) -> None:
    """S0.31: whatever a row refers to is read with it; nothing is counted or skipped over.

    A page has 50 unless a limit from 1 to 100 is said, which is kept through `next`.
    """
    add, _ = LISTS[path]
    add(1)
    one = statements(lambda: api.get(path))
    add(49)
    assert len(keys(path, api.get(path))) == 50

    fifty = statements(lambda: api.get(path))

    # The archive is examined by ranges of its ids, and asks for these first.
    assert len(fifty) == len(one) <= (3 if "archived" in path else 2)
    assert not [sql for sql in fifty if "COUNT(" in sql or "OFFSET" in sql]
    add(1)
    assert [len(keys(path, answer)) for answer in pages(api, path)] == [50, 1]
    assert [len(keys(path, answer)) for answer in pages(api, path, limit=100)] == [51]
    assert [len(keys(path, answer)) for answer in pages(api, path, limit=30)] == [30, 21]
