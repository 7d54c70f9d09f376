"""Limits by key on the pages of jobs and types."""

from __future__ import annotations

import re
from html import escape, unescape
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from apps.common import clock
from apps.jobs.models import Job
from apps.jobs.services import admission, types
from apps.jobs.services.submit import submit
from tests.emptying import undone
from tests.integration.jobs.admin.pages import now_url
from tests.integration.jobs.test_limits_by_key import BLOCKED, limited, some
from tests.jobs import job_type
from tests.pages import page_of, rows_of, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def test_page_of_a_blocked_job_leads_to_those_that_have_the_places(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    """For who may search for the value of its key, where anybody may."""
    cases: list[tuple[str, dict[str, Any], bool]] = [
        ("context.to[0].name", {"context": {"to": [{"name": "Ann & Co"}]}}, True),
        ("key", {"key": "a/b"}, True),
        ("user_id", {"user_id": "ann"}, True),
        ("context.token", {"context": {"token": "s3cret"}}, False),
        ("context.customer", {}, False),
    ]
    person = User.objects.create_user("ann", is_staff=True)
    person.user_permissions.set(Permission.objects.filter(codename="view_job"))
    viewer = Client()
    viewer.force_login(person)
    for by, fields, leads in cases:
        with subtests.test(by), undone():
            job_type(limit_by=by, limit_running=2)
            made = [submit("mail", **fields).id for _ in range(3)]
            submit("mail", key="other", user_id="other")
            admission.sweep(clock.now())
            blocked = Job.objects.get(pk__in=made, status=BLOCKED)
            page = page_of(admin_client, blocked)
            found = re.search(
                r'href="([^"]*)">[^<]*2 of 2 jobs with the same', page.content.decode()
            )
            assert bool(found) is leads
            if found is not None:
                rows = rows_of(admin_client, unescape(found[1]))
                assert {job.pk for job in rows} == {*made} - {blocked.pk}
            seen = page_of(viewer, blocked).content.decode()
            assert ("status=ready" in seen) is (by in ("key", "user_id"))


def test_list_of_types_says_how_many_are_blocked_and_by_what(admin_client: Client) -> None:
    limited(limit_running=1)
    some(3, "Ann & Co")
    page = admin_client.get(reverse("admin:jobs_jobtype_changelist"))
    assert "1 ready · 2 blocked" in text_of(page)
    assert "limited by context.customer" in text_of(page)
    blocked = f"{reverse('admin:jobs_job_changelist')}?type=mail&status=blocked"
    assert f'href="{escape(blocked)}"' in page.content.decode()


def test_page_of_the_type_names_the_keys_with_most_blocked_jobs(client: Client) -> None:
    """Their values only for those who see contexts."""
    limited(limit_running=1)
    for count, customer in ((4, "Ann & Co"), (2, "Ben"), (1, "Cy")):
        some(count, customer)
    url = f"{now_url(types.find('mail'))}?part=blocked"
    person = User.objects.create_user("ann", is_staff=True)
    rights = Permission.objects.filter(content_type__app_label="jobs")
    person.user_permissions.set(rights.filter(codename__in=("view_job", "view_jobtype")))

    client.force_login(person)
    assert re.search("– 3 .* – 1 ", text_of(client.get(url)))
    person.user_permissions.add(rights.get(codename="view_payload"))
    text = text_of(client.get(url))
    assert re.search("Ann & Co 3 .* Ben 1 ", text)
    assert "Cy" not in text
