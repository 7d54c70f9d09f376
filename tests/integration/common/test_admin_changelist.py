"""Lists of the admin bases with filters of Django's own making, as other apps may use them."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client, RequestFactory
from django.urls import reverse

from apps.common.admin.base import PlatformModelAdmin
from apps.jobs.admin.job_types import JobTypeAdmin
from apps.jobs.models import JobType
from tests import factories
from tests.jobs import end, job_type, jobs, take
from tests.pages import text_of


class DatedUserAdmin(PlatformModelAdmin):
    date_hierarchy = "date_joined"
    list_filter = ("date_joined", "is_staff")


def listed(user: User, query: dict[str, str]) -> Any:
    request = RequestFactory().get("/users/", query)
    request.user, request.session = user, SessionStore()
    return DatedUserAdmin(User, admin.site).changelist_view(request)


def test_date_or_value_that_none_is_leads_back_to_the_plain_list(
    admin_user: User, subtests: pytest.Subtests
) -> None:
    for query in [
        {"date_joined__year": "99999"},
        {"date_joined__year": "9999"},
        {"date_joined__year": "9999", "date_joined__month": "12"},
        {"date_joined__year": "9999", "date_joined__month": "12", "date_joined__day": "31"},
        {"date_joined__year": "0"},
        {"date_joined__year": "2026", "date_joined__month": "13"},
        {"date_joined__year": "x"},
        {"date_joined__month": "1"},
        {"date_joined__gte": "0001-01-01 00:00:00+23:00"},
        {"date_joined__gte": "yesterday"},
        {"date_joined__regex": "."},
        {"is_staff__exact": "maybe"},
        {"is_staff__exact": "1", "is_staff": "1"},
    ]:
        with subtests.test(query=query):
            answer = listed(admin_user, query)
            assert answer.status_code == 302
            assert answer["Location"] == "/users/?e=1"


def test_failure_of_the_code_itself_is_not_taken_for_a_wrong_address(
    admin_user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(DatedUserAdmin, "prepare_page", broken)
    with pytest.raises(ValueError, match="a bug"):
        listed(admin_user, {})


def test_how_many_rows_there_are_is_said_as_people_say_it(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JobTypeAdmin, "list_per_page", 2)
    for name in ("mail", "photo", "report"):
        job_type(name)
    types = reverse("admin:jobs_jobtype_changelist")
    said = {
        "en": (f"{JobType.objects.count()} job types", "1 job type"),
        "zh-hans": (f"共 {JobType.objects.count()} 个作业类型", "共 1 个作业类型"),
    }
    for language, (all_of_them, one) in said.items():
        admin_client.cookies[settings.LANGUAGE_COOKIE_NAME] = language
        page = admin_client.get(types)
        assert f"1 2 {all_of_them}" in text_of(page)
        assert 'href="?p=2"' in page.content.decode()
        assert text_of(admin_client.get(types, {"q": "photo"})).endswith(one)
    admin_client.cookies[settings.LANGUAGE_COOKIE_NAME] = "zh-hans"
    keys = text_of(admin_client.get(reverse("admin:access_apiclient_changelist")))
    assert keys.endswith("共 0 个 API 密钥")


def test_rows_of_a_list_come_alone_for_one_that_renews_itself(admin_client: Client) -> None:
    factories.once_task(factories.user("uid_ann"), title="Shelf photos")
    address = "/admin/dispatch/oncetask/"
    whole = admin_client.get(address).content.decode()
    assert 'data-live-url="?_part=rows"' in whole
    part = admin_client.get(address, {"_part": "rows"}).content.decode()
    assert "Shelf photos" in part and "<html" not in part
    # No link of the rows is one of a part, and further pages stay as they are.
    assert part.count("_part") == 1
    assert "data-live-url" not in admin_client.get(address, {"p": "2"}).content.decode()
    assert Client().get(address, {"_part": "rows"}).status_code == 302


def test_buttons_of_rows_that_come_alone_lead_back_to_the_whole_list(admin_client: Client) -> None:
    job_type(max_attempts=1)
    jobs(1)
    end(take(1)[0], "failed", retry="never")
    part = admin_client.get("/admin/jobs/job/", {"_part": "rows"}).content.decode()
    assert "cell-button" in part
    assert part.count("_part") == 1
