"""Pages without counting: the signed cursor of the API, and the admin's bounded pages."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.paginator import EmptyPage
from django.test import RequestFactory

from apps.common.admin.changelist import MAX_PAGES, CountFreePaginator

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture(autouse=True)
def groups() -> list[Group]:
    Group.objects.all().delete()
    return [Group.objects.create(name=f"g{n}") for n in range(7)]


# --- admin -----------------------------------------------------------------------------------
def paginator_at(page: str, per_page: int = 3) -> Any:
    request = RequestFactory().get(f"/admin/?p={page}")
    return CountFreePaginator.of_request(request, Group.objects.order_by("-pk"), per_page)


def test_page_knows_its_rows_and_whether_more_follow_from_one_statement(
    django_assert_num_queries: Any, subtests: pytest.Subtests
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


def test_page_beyond_the_rows_or_the_bound_is_refused(subtests: pytest.Subtests) -> None:
    for page in ["4", "50", str(MAX_PAGES + 1), "99999999"]:
        with subtests.test(page=page):
            paginator = paginator_at(page)

            assert paginator.count > paginator.per_page
            with pytest.raises(EmptyPage):
                paginator.page(int(page))


def test_last_page_within_the_bound_offers_no_page_after_it() -> None:
    Group.objects.bulk_create([Group(name=f"n{n}") for n in range(MAX_PAGES)])
    paginator = paginator_at(str(MAX_PAGES), per_page=1)

    assert paginator.has_more
    assert paginator.num_pages == MAX_PAGES
    assert not paginator.page(MAX_PAGES).has_next()
