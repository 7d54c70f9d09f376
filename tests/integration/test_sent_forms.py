"""A form that adds something makes it once, however often it is sent."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from apps.common import sent_forms
from apps.common.admin.service import ServiceModelAdmin
from apps.common.models import SentForm
from apps.common.sent_forms import SentBefore
from apps.dispatch.models import OnceTask
from tests import factories
from tests.pages import form_of

pytestmark = pytest.mark.django_db

# What is typed, by model.
TYPED: dict[str, dict[str, str]] = {
    "oncetask": {"title": "Count", "executor": "uid_alice", "params-raw": "{}"},
    "rotatetask": {
        "title": "Count",
        "executor": "uid_alice",
        "every_minutes": "5",
        "params-raw": "{}",
    },
    "executor": {"name": "uid_ben"},
    "job": {"type": "mail", "params-raw": "{}"},
    "apiclient": {"name": "Till 4", "scopes": "read"},
    "jobtype": {"name": "post"},
    "template": {"name": "shelf"},
    "schedule": {
        "title": "Nightly",
        "job_type": "mail",
        "every": "every_minutes",
        "every_minutes": "5",
        "params-raw": "{}",
    },
    "alertrule": {"name": "Too many", "kind": "sweep_overdue"},
}


def adding() -> list[Any]:
    return [each for each in admin.site._registry.values() if isinstance(each, ServiceModelAdmin)]


def test_every_form_that_adds_a_row_carries_a_number(
    admin_client: Client, rf: Any, admin_user: Any, subtests: pytest.Subtests
) -> None:
    factories.job_type()
    request = rf.get("/")
    request.user = admin_user
    pages = [each for each in adding() if each.has_add_permission(request)]
    assert len(pages) > 8
    for each in pages:
        with subtests.test(each.opts.model_name):
            page = admin_client.get(each.url("add"), {"type": "mail"})
            assert sent_forms.number_of(form_of(page, "once")["once"]) is not None


def test_form_that_is_sent_again_leads_to_what_it_made(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    factories.job_type()
    factories.user()
    for each in adding():
        typed = TYPED.get(str(each.opts.model_name))
        if typed is None:
            continue
        with subtests.test(each.opts.model_name):
            url = each.url("add")
            sent = {**form_of(admin_client.get(url, {"type": "mail"}), "once"), **typed}
            before = each.model._default_manager.count()
            admin_client.post(url, sent)
            again = admin_client.post(url, sent)
            assert each.model._default_manager.count() == before + 1
            assert again.status_code == 302
            # A new form with the same content is a new row, where names do not say otherwise.
            if "name" not in typed:
                anew = form_of(admin_client.get(url, {"type": "mail"}), "once")["once"]
                admin_client.post(url, {**sent, "once": anew})
                assert each.model._default_manager.count() == before + 2


def test_what_is_refused_or_only_tried_uses_no_number(admin_client: Client) -> None:
    factories.user()
    url = reverse("admin:dispatch_oncetask_add")
    sent = {**form_of(admin_client.get(url), "once"), **TYPED["oncetask"]}
    assert admin_client.post(url, {**sent, "title": ""}).status_code == 200
    assert admin_client.post(url, {**sent, "_what_if": "7"}).status_code == 200
    assert not SentForm.objects.exists()
    assert admin_client.post(url, sent).status_code == 302


@pytest.mark.both
def test_of_two_at_once_one_makes_it_and_the_other_finds_it(racers: Any) -> None:
    alice = factories.user()

    def send() -> int:
        try:
            return sent_forms.make_once(7, lambda: factories.once_task(alice)).pk
        except SentBefore as before:
            assert before.row is not None
            return before.row

    race = racers([send] * 4)
    [made] = OnceTask.objects.all()
    assert race.results == [made.pk] * 4
