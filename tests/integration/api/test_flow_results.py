"""The results of the jobs of a step over REST: pages of bounded size."""

from __future__ import annotations

import pytest
from django.test import Client

from apps.common.api import paging
from apps.flows.services import programs
from apps.flows.services.results import results_of
from tests.flows import job, jobs, started, wait, work
from tests.integration.api.contract import ApiFor, ContractClient
from tests.jobs import job_type

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def run() -> int:
    """With five results of 20 KB."""
    job_type("mail")
    number = started(jobs("many", [*range(5)]))
    work(number, "many", result={"text": "x" * 20_000})
    return number


@pytest.mark.parametrize(
    ("most", "limit", "sizes"),
    [
        (50_000, 500, [2, 2, 1]),
        (5_000, 500, [1] * 5),
        (500_000, 500, [5]),
        (500_000, 5, [5]),
        (500_000, 2, [2, 2, 1]),
    ],
)
def test_page_of_large_results_is_shorter_and_the_next_goes_on(
    api: ContractClient,
    run: int,
    monkeypatch: pytest.MonkeyPatch,
    most: int,
    limit: int,
    sizes: list[int],
) -> None:
    """500 results of 250 KB were one answer of 125 MB."""
    monkeypatch.setattr(paging, "MAX_LETTERS", most)
    path, after = f"/api/v1/flow-runs/{run}/steps/many/results/", None
    pages = []
    while True:
        page = api.get(path, limit=limit, **({"after": after} if after else {})).json()
        pages.append([each["id"] for each in page["results"]])
        if (after := page["after"]) is None:
            break

    assert [len(page) for page in pages] == sizes
    numbers = [int(number) for page in pages for number in page]
    assert numbers == sorted({*numbers})


def test_handler_reads_large_results_in_smaller_parts(
    run: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "BLOCK_LETTERS", 50_000)
    found = [*results_of({"run": str(run), "step": "many"})]

    assert len({each.id for each in found}) == 5
    assert {len(each.result["text"]) for each in found} == {20_000}


def test_run_leaves_out_the_results_beyond_a_size_and_says_so(
    api: ContractClient, api_for: ApiFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 steps with results of 250 KB were one answer of 25 MB, masked for a minute."""
    monkeypatch.setattr(paging, "MAX_LETTERS", 50_000)
    job_type("mail")
    names = ["a", "b", "c", "d"]
    number = started(*(job(name) for name in names), wait("w"))
    for name in names:
        work(number, name, result={"text": ("" if name == "d" else "x") * 20_000})

    for key in (api, api_for(scopes=["read"])):
        steps = key.get(f"/api/v1/flow-runs/{number}/").json()["steps"]

        shown = [step["result"] and len(step["result"]["text"]) for step in steps]
        assert shown == [20_000, 20_000, None, None, None]
        assert [step["result_left_out"] for step in steps] == [False, False, True, True, False]
        left_out = key.get(f"/api/v1/flow-runs/{number}/steps/c/results/").json()["results"]
        assert len(left_out[0]["result"]["text"]) == 20_000


def test_page_of_results_leaves_them_out_as_well(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page took a quarter of a minute to mask what it then cut."""
    monkeypatch.setattr(paging, "MAX_LETTERS", 50_000)
    job_type("mail")
    names = ["a", "b", "c"]
    number = started(*(job(name) for name in names))
    for name in names:
        work(number, name, result={"text": name * 20_000})

    page = admin_client.get(f"/admin/flows/flowrun/{number}/results/").content.decode()

    assert ["a" * 100 in page, "b" * 100 in page, "c" * 100 in page] == [True, True, False]
    assert page.count("Too large to be shown with those above") == 1
