"""Pages without counting: the signed cursor of the API, and the admin's bounded pages."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import Group
from django.core.paginator import EmptyPage, PageNotAnInteger
from django.test import RequestFactory
from rest_framework.request import Request

from apps.common.admin.changelist import MAX_PAGES, CountFreePaginator
from apps.common.errors import PlatformError
from apps.common.paging import KeysetPage, PageQuery
from apps.common.serializers import Text

pytestmark = [pytest.mark.django_db, pytest.mark.both]


class GroupQuery(PageQuery):
    name = Text(max_length=50, required=False)


@pytest.fixture
def groups() -> list[Group]:
    Group.objects.all().delete()
    return [Group.objects.create(name=f"g{n}") for n in range(7)]


def page_at(address: str) -> KeysetPage:
    request = Request(RequestFactory().get(address))
    return KeysetPage(request, GroupQuery.check_query(request.query_params))


def ask(address: str) -> dict[str, Any]:
    page = page_at(address)
    return page.answer([group.name for group in page.rows(Group.objects.all())])


def test_pages_go_from_the_newest_to_the_oldest_and_end_with_null(groups: list[Group]) -> None:
    first = ask("/groups/?limit=3&name=x")
    second = ask(first["next"])
    third = ask(second["next"])

    assert [first["results"], second["results"], third["results"]] == [
        ["g6", "g5", "g4"],
        ["g3", "g2", "g1"],
        ["g0"],
    ]
    assert third["next"] is None


def test_full_last_page_has_no_next(groups: list[Group]) -> None:
    assert ask("/groups/?limit=7")["next"] is None
    assert ask("/groups/?limit=6")["next"] is not None


def test_next_is_an_address_without_host_that_keeps_the_filters(groups: list[Group]) -> None:
    address = urlsplit(ask("/groups/?limit=3&name=%C3%A4%26b")["next"])

    assert (address.scheme, address.netloc, address.path) == ("", "", "/groups/")
    parameters = parse_qs(address.query)
    assert parameters.pop("cursor")
    assert parameters == {"limit": ["3"], "name": ["ä&b"]}


def test_rows_made_and_removed_meanwhile_shift_no_page(groups: list[Group]) -> None:
    first = ask("/groups/?limit=3")
    Group.objects.create(name="late")
    groups[5].delete()

    assert ask(first["next"])["results"] == ["g3", "g2", "g1"]


def test_limit_may_change_from_page_to_page(groups: list[Group]) -> None:
    following = ask("/groups/?limit=3")["next"].replace("limit=3", "limit=2")

    assert ask(following)["results"] == ["g3", "g2"]


def test_one_statement_reads_a_page_and_counts_nothing(
    groups: list[Group], django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(1) as statements:
        ask("/groups/?limit=3")

    assert "COUNT" not in statements.captured_queries[0]["sql"]
    assert "LIMIT 4" in statements.captured_queries[0]["sql"]


def test_altered_or_borrowed_cursor_is_refused(
    groups: list[Group], subtests: pytest.Subtests
) -> None:
    following = ask("/groups/?limit=3&name=a")["next"]
    assert ask(following)["results"] == ["g3", "g2", "g1"]
    for change in [
        lambda address: address.replace("cursor=", "cursor=x"),
        lambda address: address[:-1],
        lambda address: address.replace("/groups/", "/others/"),
        lambda address: address.replace("name=a", "name=b"),
        lambda address: address.replace("name=a&", ""),
        lambda address: "/groups/?name=a&cursor=NA:forged",
        lambda address: "/groups/?name=a&cursor=%00",
        lambda address: "/groups/?name=a&cursor=" + "x" * 500,
    ]:
        with subtests.test(address=change(following)):
            with pytest.raises(PlatformError) as caught:
                ask(change(following))
            assert caught.value.status == 400
            assert [e.field for e in caught.value.errors] == ["cursor"]


def test_limit_out_of_range_is_refused(subtests: pytest.Subtests) -> None:
    for query in ["limit=0", "limit=101", "limit=abc", "limit=1&limit=2"]:
        with subtests.test(query=query):
            with pytest.raises(PlatformError) as caught:
                page_at(f"/groups/?{query}")
            assert [e.field for e in caught.value.errors] == ["limit"]


def test_fifty_rows_are_given_unless_asked_otherwise() -> None:
    Group.objects.bulk_create([Group(name=f"n{n}") for n in range(60)])

    assert len(ask("/groups/")["results"]) == 50


# --- admin -----------------------------------------------------------------------------------
def paginator_at(page: str, per_page: int = 3) -> Any:
    request = RequestFactory().get(f"/admin/?p={page}")
    return CountFreePaginator.of_request(request, Group.objects.order_by("-pk"), per_page)


def test_page_knows_its_rows_and_whether_more_follow_from_one_statement(
    groups: list[Group], django_assert_num_queries: Any, subtests: pytest.Subtests
) -> None:
    for page, count, names, has_more in [
        ("1", 4, ["g6", "g5", "g4"], True),
        ("2", 7, ["g3", "g2", "g1"], True),
        ("3", 7, ["g0"], False),
    ]:
        with subtests.test(page=page):
            with django_assert_num_queries(1) as statements:
                paginator = paginator_at(page)
                assert paginator.count == count
                assert [group.name for group in paginator.page(int(page))] == names
                assert paginator.has_more is has_more
                assert paginator.page(int(page)).has_next() is has_more

            assert "COUNT" not in statements.captured_queries[0]["sql"]


def test_list_of_one_page_counts_exactly(groups: list[Group]) -> None:
    paginator = paginator_at("1", per_page=7)

    assert (paginator.count, paginator.num_pages, paginator.has_more) == (7, 1, False)


def test_page_beyond_the_rows_or_the_bound_is_refused(
    groups: list[Group], subtests: pytest.Subtests
) -> None:
    for page in ["4", "50", str(MAX_PAGES + 1), "99999999"]:
        with subtests.test(page=page):
            paginator = paginator_at(page)

            assert paginator.count > paginator.per_page
            with pytest.raises(EmptyPage):
                paginator.page(int(page))


def test_last_page_within_the_bound_offers_no_page_after_it(groups: list[Group]) -> None:
    Group.objects.bulk_create([Group(name=f"n{n}") for n in range(MAX_PAGES)])
    paginator = paginator_at(str(MAX_PAGES), per_page=1)

    assert paginator.has_more
    assert paginator.num_pages == MAX_PAGES
    assert not paginator.page(MAX_PAGES).has_next()


def test_page_number_that_is_none_is_left_to_the_change_list(
    groups: list[Group], subtests: pytest.Subtests
) -> None:
    for page in ["", "-1", "0", "abc", "1.5", "²", "9" * 5000]:
        with subtests.test(page=page):
            assert paginator_at(page).count == 4


def test_page_that_is_no_number_is_refused(groups: list[Group]) -> None:
    with pytest.raises(PageNotAnInteger):
        paginator_at("1").page("x")
