"""A form that adds something makes it once, however often it is sent."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from apps.alerts.models import Channel, Delivery
from apps.common import sent_forms
from apps.common.admin.sent import TOKEN
from apps.common.admin.service import ServiceModelAdmin
from apps.common.models import SentForm
from apps.common.sent_forms import SentBefore
from apps.dispatch.models import OnceTask
from apps.schedules.models import Schedule, ScheduleRun
from tests import factories
from tests.alerts import channel, report_plan
from tests.pages import change_url, form_of, forms_to, text_of

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
    "channel": {"name": "ops", "kind": "webhook", "url": "https://alerts.example.org/in"},
    "reportplan": {"title": "Every morning", "query": "by=type&period=24h"},
    "flow": {"name": "night"},
}


# What a new form begins with.
BEGIN = {"type": "mail", "example": "1"}


@pytest.fixture
def adding(rf: Any, admin_user: Any) -> list[Any]:
    """The lists to which somebody may add rows by a form."""
    request = rf.get("/")
    request.user = admin_user
    every = [each for each in admin.site._registry.values() if isinstance(each, ServiceModelAdmin)]
    return [each for each in every if each.has_add_permission(request)]


def test_every_form_that_adds_a_row_carries_a_number(
    admin_client: Client, adding: list[Any], subtests: pytest.Subtests
) -> None:
    factories.job_type()
    assert {each.opts.model_name for each in adding} == {*TYPED}
    for each in adding:
        with subtests.test(each.opts.model_name):
            page = admin_client.get(each.url("add"), BEGIN)
            assert sent_forms.number_of(form_of(page, "once")["once"]) is not None


def test_form_that_is_sent_again_leads_to_what_it_made(
    admin_client: Client, adding: list[Any], subtests: pytest.Subtests
) -> None:
    factories.job_type()
    factories.user()
    for each in adding:
        typed = TYPED[str(each.opts.model_name)]
        with subtests.test(each.opts.model_name):
            url = each.url("add")
            sent = {**form_of(admin_client.get(url, BEGIN), "once"), **typed}
            before = each.model._default_manager.count()
            admin_client.post(url, sent)
            again = admin_client.post(url, sent)
            assert each.model._default_manager.count() == before + 1
            assert again.status_code == 302
            # A new form with the same content is a new row, where names do not say otherwise.
            if "name" not in typed:
                anew = form_of(admin_client.get(url, BEGIN), "once")["once"]
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


# --- forms that act -------------------------------------------------------------------------------
class Deed(NamedTuple):
    """Something that a page does: the page, the button or form on it, and what is counted."""

    page: str
    address: str
    counted: type[Model]


def deeds() -> list[Deed]:
    """Each makes something new whenever it is done."""
    schedule = factories.schedule()
    owner = User.objects.get(username="admin")
    plan = report_plan(owner, channels=[channel()])
    row = Channel.objects.get()
    of_schedule, of_plan, of_channel = map(change_url, (schedule, plan, row))
    lists = reverse("admin:schedules_schedule_changelist")
    test = reverse("admin:alerts_channel_test", args=[row.pk])
    return [
        Deed(of_schedule, reverse("admin:schedules_schedule_act", args=["run_now"]), ScheduleRun),
        Deed(lists, lists, ScheduleRun),
        Deed(of_plan, reverse("admin:alerts_reportplan_act", args=["send_now"]), ScheduleRun),
        Deed(test, test, Delivery),
        Deed(of_channel, test, Delivery),
    ]


def sent_by_page(client: Client, deed: Deed) -> dict[str, Any]:
    """What a browser would send of the form on the page."""
    page = client.get(deed.page)
    if deed.page == deed.address:
        fields = form_of(page, "sent")
        rows = {"action": "run_now", "_selected_action": str(Schedule.objects.earliest("pk").pk)}
        return {**fields, **rows} if deed.counted is ScheduleRun else fields
    for form in forms_to(page, deed.address):
        return form
    return form_of(client.get(deed.address), "sent")


def test_act_is_done_once_however_often_its_form_is_sent(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    """Also by a second click that comes when nobody waits for a double click any more, or whose
    page has got another token since, as that of a form that outlasts its session."""
    factories.job_type()
    for deed in deeds():
        with subtests.test(f"{deed.page} {deed.address}"):
            rows = deed.counted._default_manager
            before = rows.count()
            form = sent_by_page(admin_client, deed)
            admin_client.post(deed.address, form)
            again = admin_client.post(deed.address, {**form, TOKEN: "another"}, follow=True)
            assert rows.count() == before + 1
            assert "This was sent twice, and is done once." in text_of(again)
            admin_client.post(deed.address, sent_by_page(admin_client, deed))
            assert rows.count() == before + 2


def test_act_that_was_refused_may_be_sent_again(admin_client: Client) -> None:
    factories.job_type()
    schedule = factories.schedule()
    page, act = change_url(schedule), reverse("admin:schedules_schedule_act", args=["run_now"])
    [form] = forms_to(admin_client.get(page), act)
    Schedule.objects.update(job_type="gone")
    assert "Run now: " in text_of(admin_client.post(act, form, follow=True))
    assert not ScheduleRun.objects.exists()
    assert not SentForm.objects.exists()
    Schedule.objects.update(job_type="mail")
    admin_client.post(act, form)
    assert ScheduleRun.objects.count() == 1


def test_list_that_is_gone_back_to_acts_on_other_rows(admin_client: Client) -> None:
    factories.job_type()
    first, other = (factories.schedule(title=title) for title in ("One", "Two"))
    address = reverse("admin:schedules_schedule_changelist")
    form = {**form_of(admin_client.get(address), "sent"), "action": "run_now"}
    for row in (first, other, first):
        admin_client.post(address, {**form, "_selected_action": str(row.pk)})
    assert {*ScheduleRun.objects.values_list("schedule", flat=True)} == {first.pk, other.pk}
    assert ScheduleRun.objects.count() == 2


@pytest.mark.both
def test_of_two_acts_at_once_one_is_done(racers: Any) -> None:
    def act() -> bool:
        with sent_forms.acting_once(7) as mine:
            mine.is_done = not mine.was_sent
        return mine.is_done

    assert sorted(racers([act] * 4).results) == [False, False, False, True]
