"""The pages of alerts: rules, channels, the test of a channel, snoozing; and who sees them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.alerts.handlers import deliver
from apps.alerts.models import Alert, AlertRule, Channel, Delivery, ReportPlan
from apps.common import clock
from apps.jobs.handlers import Fail
from apps.jobs.models import JobScope
from apps.journal.models import JournalEntry
from apps.schedules.models import Schedule
from tests import factories
from tests.alerts import Attempt, Receiver, address, channel, evaluate, report_plan, rule
from tests.emptying import undone
from tests.frozen import FrozenClock
from tests.jobs import job_type, jobs
from tests.pages import english_in, form_of, text_of

pytestmark = pytest.mark.django_db

SECRETS = ("T0KEN", "S3CRET")


def secret_channel(**values: Any) -> Channel:
    return channel(**{"url": "https://bots.example.org/hook/T0KEN", "secret": "S3CRET", **values})


@pytest.fixture
def firing(frozen_clock: FrozenClock) -> Alert:
    job_type()
    jobs(1, run_at=clock.now() - timedelta(hours=1))
    rule("late", "oldest_due", for_seconds=0, channels=[secret_channel(language="zh-hans")])
    evaluate()
    return Alert.objects.get()


def every_page(alert: Alert) -> list[str]:
    delivery = Delivery.objects.get()
    owner = User.objects.filter(username="owner").first() or User.objects.create_superuser("owner")
    plan = ReportPlan.objects.first() or report_plan(owner, channels=[delivery.channel])
    rows = {
        "reportplan": plan.pk,
        "alert": alert.pk,
        "alertrule": alert.rule_id,
        "channel": delivery.channel_id,
        "delivery": delivery.pk,
    }
    return [
        *(address(model, "changelist") for model in rows),
        *(address(model, "change", pk) for model, pk in rows.items()),
        address("channel", "history", delivery.channel_id),
    ]


# --- rules ----------------------------------------------------------------------------------------
def test_rule_is_made_and_changed_by_a_configurer(role_client: Any) -> None:
    client, made_channel = role_client("configurer"), channel()
    form = form_of(client.get(address("alertrule", "add")), "name")
    typed = {
        **form,
        "name": "Mail fails",
        "kind": "failure_rate",
        "threshold": "0.3",
        "channels": [str(made_channel.pk)],
        "quiet_from": "22:00",
        "quiet_to": "06:00",
        "quiet_days": ["1", "5"],
    }
    assert client.post(address("alertrule", "add"), typed).status_code == 302
    made = AlertRule.objects.get()
    assert (made.name, made.limit.threshold, made.quiet_days) == ("Mail fails", 0.3, "15")
    assert [*made.channels.all()] == [made_channel]

    page = address("alertrule", "change", made.pk)
    form = form_of(client.get(page), "name")
    assert client.post(page, {**form, "threshold": "", "channels": []}).status_code == 302

    made.refresh_from_db()
    assert (made.limit.threshold, made.quiet_days, made.channels.count()) == (0.2, "15", 0)
    entry = JournalEntry.objects.latest("id")
    assert (entry.event, entry.actor) == ("rule_changed", "admin:configurer")
    assert entry.data is not None
    assert entry.data["before"] == {"threshold": 0.3, "channels": ["ops"]}


def test_wrong_value_is_named_beside_its_field(role_client: Any, subtests: pytest.Subtests) -> None:
    rule("Mail fails")
    client = role_client("configurer")
    form = form_of(client.get(address("alertrule", "add")), "name")
    for field, value, message in [
        ("name", "Mail fails", "Mail fails exists already; choose another name."),
        ("threshold", "1.5", "1.5 does not do; write a number above 0, up to 1.0."),
        ("quiet_zone", "Asia/Shangai", "did you mean Asia/Shanghai"),
        ("repeat_minutes", "0", "write a whole number from 1 to 10080"),
        ("name", "", "This field is required."),
    ]:
        with subtests.test(field=field, value=value):
            typed = {**form, "name": "x", "kind": "failure_rate", field: value}
            answer = client.post(address("alertrule", "add"), typed)
            assert (answer.status_code, AlertRule.objects.count()) == (200, 1)
            assert message in text_of(answer)


def test_page_of_a_rule_says_whether_it_would_fire(firing: Alert, role_client: Any) -> None:
    shown = text_of(role_client("viewer").get(address("alertrule", "change", firing.rule_id)))
    assert "Yes: 1 wrong now. Subject Value State mail" in shown
    made = rule("fails", "failure_rate")
    shown = text_of(role_client("viewer").get(address("alertrule", "change", made.pk)))
    assert "No: it reads nothing now. A type counts from 20 ended jobs" in shown


@pytest.mark.both
def test_page_of_a_rule_says_that_its_target_does_not_exist(
    frozen_clock: FrozenClock, role_client: Any, subtests: pytest.Subtests
) -> None:
    job_type()
    factories.group("gid_shops")
    client = role_client("configurer")
    form = form_of(client.get(address("alertrule", "add")), "name")
    for kind, target, sentence in [
        ("failure_rate", "nosuchtype", "There is no job type nosuchtype (yet)."),
        ("failure_rate", "mail", ""),
        ("quota_unfilled", "gid_nobody", "There is no person or group gid_nobody (yet)."),
        ("quota_unfilled", "gid_shops", ""),
        ("worker_silent", "w1", "There is no worker and no job type w1 (yet)."),
        ("worker_silent", "mail", ""),
        ("sweep_overdue", "jobs.nap", "There is no sweep jobs.nap."),
        ("sweep_overdue", "jobs.scan", ""),
        ("breaker_open", "", ""),
    ]:
        with subtests.test(kind=kind, target=target), undone():
            typed = {**form, "name": "r", "kind": kind, "target": target}
            answer = client.post(address("alertrule", "add"), typed, follow=True)
            made = AlertRule.objects.get()
            page = text_of(client.get(address("alertrule", "change", made.pk)))
            for shown in (text_of(answer), page):
                assert sentence in shown
                assert ("There is no" in shown) == bool(sentence)


def test_rule_of_a_kind_of_another_release_can_be_seen_and_deleted(
    firing: Alert, admin_client: Client, subtests: pytest.Subtests
) -> None:
    AlertRule.objects.filter(pk=firing.rule_id).update(kind="of_later", target="mail")
    for page, says in {
        address("alertrule", "changelist"): "mail",
        address("alertrule", "change", firing.rule_id): "This release does not know its kind",
        address("alert", "changelist"): "mail",
        address("alert", "change", firing.pk): "mail was wrong",
        reverse("admin:index"): "mail was wrong",
    }.items():
        with subtests.test(page):
            assert says in text_of(admin_client.get(page))

    admin_client.post(address("alertrule", "delete", firing.rule_id), {"post": "yes"})

    assert not AlertRule.objects.exists()


@pytest.mark.both
def test_rule_is_deleted_with_its_alerts(firing: Alert, role_client: Any) -> None:
    client = role_client("configurer")

    client.post(address("alertrule", "delete", firing.rule_id), {"post": "yes"})

    assert (AlertRule.objects.count(), Alert.objects.count()) == (0, 0)
    assert JournalEntry.objects.latest("id").event == "rule_deleted"


# --- channels -------------------------------------------------------------------------------------
def test_channel_keeps_its_secrets_when_they_are_left_empty(role_client: Any) -> None:
    made, client = secret_channel(), role_client("configurer")
    page = address("channel", "change", made.pk)
    assert "Empty: as it is." in client.get(page).content.decode()
    assert "Empty: as it is." not in client.get(address("channel", "add")).content.decode()
    form = form_of(client.get(page), "name")

    assert client.post(page, {**form, "name": "Night shift"}).status_code == 302

    made.refresh_from_db()
    assert (made.name, made.secret) == ("Night shift", "S3CRET")
    assert made.url.endswith("/hook/T0KEN")


def test_no_page_shows_a_secret(firing: Alert, admin_client: Client) -> None:
    secret = Channel.objects.get()
    page = address("channel", "change", secret.pk)
    typed = {**form_of(admin_client.get(page), "name"), "url": "https://x.example/N3W"}
    wrong = admin_client.post(page, {**typed, "name": ""})
    Channel.objects.update(version=2)
    conflict = admin_client.post(page, typed)
    assert (wrong.status_code, conflict.status_code) == (200, 409)

    assert "bots.example.org" in text_of(admin_client.get(address("channel", "changelist")))
    pages = [admin_client.get(each) for each in every_page(firing)]
    job = admin_client.get(reverse("admin:jobs_job_change", args=[Delivery.objects.get().job]))
    journal = admin_client.get(reverse("admin:journal_journalentry_changelist"))

    for answer in (*pages, job, journal, wrong, conflict):
        html = answer.content.decode()
        assert [each for each in (*SECRETS, "N3W") if each in html] == []


def test_channel_to_a_host_that_is_not_allowed_says_so(role_client: Any, settings: Any) -> None:
    settings.ALERT_HOSTS = ("hooks.slack.com",)
    client = role_client("configurer")
    form = form_of(client.get(address("channel", "add")), "name")
    typed = {**form, "name": "ops", "kind": "webhook", "url": "https://a.example/T0KEN"}
    sentence = (
        "a.example port 443 is not allowed. Add it to ALERT_HOSTS, which has: hooks.slack.com;"
    )

    saved = text_of(client.post(address("channel", "add"), typed, follow=True))

    made = Channel.objects.get()
    page = address("channel", "change", made.pk)
    for shown in (saved, text_of(client.get(page))):
        assert sentence in shown
        assert "T0KEN" not in shown
    settings.ALERT_HOSTS = ("a.example",)
    assert "is not allowed" not in text_of(client.get(page))
    made.url = "https://10.0.0.7/T0KEN"
    made.save()
    settings.ALERT_HOSTS = ("10.0.0.7",)
    assert "10.0.0.7 is at 10.0.0.7, which is not public" in text_of(client.get(page))


def test_mail_needs_a_server_and_an_address(role_client: Any, settings: Any) -> None:
    settings.MAIL_HOST = ""
    client = role_client("configurer")
    form = form_of(client.get(address("channel", "add")), "name")

    shown = text_of(
        client.post(address("channel", "add"), {**form, "name": "Post", "kind": "mail"})
    )

    assert "There is no server for mail; set EMAIL_URL and start anew." in shown
    assert "Write at least one mail address." in shown


def test_page_of_a_test_shows_code_and_answer(role_client: Any, site: Receiver) -> None:
    site.answers = [(200, b'{"errcode": 310000, "errmsg": "sign not match <b>"}')]
    made = channel(kind="dingtalk", url=f"{site.url}/robot/send?access_token=T0KEN", secret="S")
    client = role_client("configurer")
    page = address("channel", "test", made.pk)
    assert page in client.get(address("channel", "change", made.pk)).content.decode()
    assert (client.get(page).status_code, site.taken) == (200, [])

    answer = client.post(page, follow=True)

    # No page waits for the other side: a worker sends it, and the page renews itself meanwhile.
    live = address("delivery", "live", Delivery.objects.get().pk)
    assert f'data-live-url="{live}" data-seconds' in answer.content.decode()
    assert ("Now State Waiting" in text_of(answer), site.taken) == (True, [])
    with pytest.raises(Fail):
        deliver({"delivery": Delivery.objects.get().pk}, Attempt(8))
    answer = client.get(live)
    assert "data-final" in answer.content.decode()
    assert "Now State Failed Code 200 Answer 310000: sign not match <b>" in text_of(answer)
    assert "<b>" not in answer.content.decode()
    assert len(site.taken) == 1


def test_why_a_message_was_not_sent_is_told_in_the_language_of_the_page(
    admin_client: Client,
) -> None:
    admin_client.post(address("channel", "test", channel().pk))
    Delivery.objects.update(answer="hook.example.org cannot be looked up: Name not known")
    page = address("delivery", "change", Delivery.objects.get().pk)

    for url in (address("delivery", "changelist"), page):
        shown = text_of(admin_client.get(url, headers={"accept-language": "zh-hans"}))
        assert "无法解析 hook.example.org：Name not known" in shown


# --- alerts ---------------------------------------------------------------------------------------


def test_schedule_is_named_by_its_title(frozen_clock: FrozenClock, admin_client: Client) -> None:
    made = [factories.schedule(title=title) for title in ("Every minute", "Every hour")]
    Schedule.objects.update(trouble="failing")
    watch = rule("plans", "schedule_failed")
    evaluate()
    alert = Alert.objects.get(subject=f"schedule:{made[0].pk}")
    shown = f"Every minute ({made[0].pk})"
    for place in (
        address("alert", "changelist"),
        address("alert", "change", alert.pk),
        address("alertrule", "change", watch.pk),
    ):
        assert shown in text_of(admin_client.get(place))
    page = admin_client.get(address("alert", "change", alert.pk))
    assert f"plans: {shown}" in text_of(page)

    with CaptureQueriesContext(connection) as caught:
        admin_client.get(address("alert", "changelist"))
    assert sum("schedules_schedule" in each["sql"] for each in caught) == 1


def test_operator_snoozes_an_alert(firing: Alert, role_client: Any) -> None:
    client = role_client("operator")
    page = client.get(address("alert", "change", firing.pk))
    assert "Snooze 1 h" in text_of(page)

    client.post(
        address("alert", "act", "snooze_hour"), {"ids": str(firing.pk), "reason": "CRM is down"}
    )

    firing.refresh_from_db()
    assert firing.snoozed_until == clock.now() + timedelta(hours=1)
    shown = text_of(client.get(address("alert", "change", firing.pk)))
    assert "Alert snoozed" in shown
    assert "CRM is down" in shown


def test_list_by_state(firing: Alert, role_client: Any, subtests: pytest.Subtests) -> None:
    now = clock.now()
    changes: dict[str, dict[str, Any]] = {"firing": {}, "pending": {"fired_at": None}}
    changes["snoozed"] = {"snoozed_until": now + timedelta(hours=1)}
    changes["resolved"] = {"resolved_at": now, "open_key": None}
    client, page = role_client("viewer"), address("alert", "changelist")
    for state, columns in changes.items():
        with subtests.test(state=state), undone():
            Alert.objects.update(**columns)
            lists = {each: client.get(page, {"state": each}).context["cl"] for each in changes}
            found = {each: shown.result_count for each, shown in lists.items()}
            assert found == {each: int(each == state) for each in changes}


# --- who may --------------------------------------------------------------------------------------


def test_people_with_limits_see_nothing_of_it(firing: Alert, role_client: Any) -> None:
    """I60."""
    client = role_client("configurer")
    JobScope.objects.create(operator=User.objects.get(username="configurer"), type="mail")

    answers = {page: client.get(page).status_code for page in every_page(firing)}

    # A row that is out of sight counts as unknown, and leads back to the start.
    assert {*answers.values()} <= {302, 403}
    assert address("alert", "changelist") not in client.get("/admin/").content.decode()


def test_pages_speak_chinese(firing: Alert, admin_client: Client) -> None:
    for page in every_page(firing):
        answer = admin_client.get(page, headers={"accept-language": "zh-hans"})
        assert english_in(answer) == [], page
