"""What every page of the admin has: a title, the menu whatever is wrong, one message for it."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin import site
from django.test import Client
from django.urls import reverse

from apps.common.admin.actions import specs
from tests.pages import text_of

pytestmark = pytest.mark.django_db


def test_unknown_address_has_the_menu_for_who_is_signed_in(
    role_client: Any, subtests: pytest.Subtests
) -> None:
    viewer = role_client("viewer")
    for address in ["/admin/nowhere/", "/admin/dispatch/nowhere/", "/admin/jobs/job/7/change/"]:
        with subtests.test(address=address):
            page = viewer.get(address)
            html = page.content.decode()
            assert page.status_code == 404
            assert "There is nothing at this address." in text_of(page)
            assert f'href="{reverse("admin:jobs_job_changelist")}"' in html
            assert f'href="{reverse("admin:auth_user_changelist")}"' not in html


def test_what_an_account_may_not_do_has_the_menu_too(role_client: Any) -> None:
    page = role_client("viewer").get(reverse("admin:dispatch_oncetask_add"))
    assert page.status_code == 403
    assert "Your account may not do this." in text_of(page)
    assert f'href="{reverse("admin:dispatch_oncetask_changelist")}"' in page.content.decode()


def test_action_on_rows_that_are_all_gone_says_so(admin_client: Client, subtests: Any) -> None:
    """Of every action of every list: somebody else may have deleted them meanwhile."""
    typed = {"ids": "998,999", "reason": "x", "by": "1h", "time": "2030-01-01T00:00"}
    said = 0
    for model_admin in site._registry.values():
        for name in specs(model_admin) if hasattr(model_admin, "custom_urls") else ():
            with subtests.test(list=model_admin.opts.label, action=name):
                url = reverse(
                    f"admin:{model_admin.opts.label_lower.replace('.', '_')}_act", args=[name]
                )
                answer = admin_client.post(url, typed, follow=True)
                assert answer.status_code == 200
                said += "There is no such row." in text_of(answer)
    # The others ask for more than is typed here.
    assert said > 30
