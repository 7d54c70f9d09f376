"""Flows are started on their pages, by who may."""

from __future__ import annotations

from typing import Any

from django.test import Client
from django.utils.html import strip_tags

from apps.dispatch.models import OperatorScope
from apps.flows.models import Flow, FlowRun
from tests import factories
from tests.flow_pages import LIST, edit, made, page_url
from tests.flows import jobs, ref, wait
from tests.pages import form_of, page_of, rows_of, text_of


# --- start ----------------------------------------------------------------------------------------
def test_start_makes_one_run_of_the_form_and_leads_to_it(admin_client: Client, flow: Flow) -> None:
    url = f"{page_url(flow)}start/"
    page = admin_client.get(url)
    assert "asks 3 of the 2 people of Sales" in text_of(page)
    # The drawing has no room for it, and no list of steps is here.
    assert "publish : if public (list) = true" in text_of(page)
    form = form_of(page, "key") | {"key": "2026-11-27"}
    chinese = admin_client.get(url, headers={"accept-language": "zh-hans"}).content.decode()
    assert "每人最多一次完成：" in strip_tags(chinese)
    wrong = admin_client.post(url, form)
    assert "This field is required" in text_of(wrong)
    form |= {"params-value/shop": "Bern"}
    for _again in range(2):
        answer = admin_client.post(url, form)
        run = FlowRun.objects.get()
        assert answer["Location"] == f"/admin/flows/flowrun/{run.pk}/change/"
    assert (run.params, run.key, run.started_by) == ({"shop": "Bern"}, "2026-11-27", "admin:admin")
    other = form_of(admin_client.get(url), "key")
    page = admin_client.post(url, {**form, "once": other["once"]})
    assert f"Run {run.pk} of this key is still open." in text_of(page)
    assert f"/admin/flows/flowrun/{run.pk}/change/" in page.content.decode()
    assert FlowRun.objects.count() == 1


def test_outlook_counts_the_jobs_that_the_typed_params_make(
    admin_client: Client, flow: Flow
) -> None:
    schema = {
        "type": "object",
        "properties": {"shops": {"type": "array", "items": {"type": "string"}}},
    }
    each = made("each", {"params": schema, "steps": [jobs("visit", ref("params", "shops"))]})
    url = f"{page_url(each)}start/"
    form = form_of(admin_client.get(url), "key")
    page = admin_client.post(
        url, {**form, "params-value/shops": "Bern\nGenf\nChur", "_draft": "check"}
    )
    assert "makes 3 jobs" in text_of(page)
    assert not FlowRun.objects.exists()


# --- who may --------------------------------------------------------------------------------------
def test_retired_flow_is_not_started_and_older_versions_are_not_edited(
    admin_client: Client, flow: Flow
) -> None:
    newer = made(title="Newer")
    assert admin_client.get(f"{page_url(flow)}start/")["Location"] == page_url(flow)
    assert page_of(admin_client, flow)["Location"] == page_url(flow)
    sent = {"reason": "not needed", "ids": newer.pk}
    admin_client.post(f"{LIST}act/retire/", sent)
    newer.refresh_from_db()
    assert newer.status == Flow.Status.RETIRED
    assert admin_client.get(f"{page_url(newer)}start/")["Location"] == page_url(newer)
    admin_client.post(f"{LIST}act/activate/", sent)
    assert admin_client.get(f"{page_url(newer)}start/").status_code == 200


def test_accounts_see_and_do_what_their_role_allows(role_client: Any, flow: Flow) -> None:
    viewer, operator = role_client("viewer"), role_client("operator")
    assert page_of(viewer, flow)["Location"] == page_url(flow)
    html = viewer.get(page_url(flow)).content.decode()
    assert "$params.shop" not in html
    assert "start/" not in html
    assert viewer.get(f"{page_url(flow)}start/").status_code == 403
    assert viewer.get(f"{page_url(flow)}?tab=json").context_data["tab"] == "flow"
    assert operator.get(f"{page_url(flow)}start/").status_code == 200
    assert operator.post(f"{LIST}{flow.pk}/change/", {"_save": "Save"}).status_code == 403
    assert operator.post(f"{LIST}act/retire/", {"reason": "no", "ids": flow.pk}).status_code == 403


def test_limited_account_sees_and_makes_only_flows_within_its_limits(
    role_user: Any, role_client: Any, flow: Flow
) -> None:
    within = made("within", {"steps": [wait("gate")]})
    client = role_client("configurer")
    other = factories.group("gid_other", ["uid_eve"])
    OperatorScope.objects.create(operator=role_user("configurer"), executor=other)
    assert [row.name for row in rows_of(client, LIST)] == ["within"]
    assert client.get(page_url(flow)).status_code == 404
    assert client.get(f"{page_url(flow)}start/").status_code == 404
    page = edit(client, within, **{"steps-0-kind": "task", "steps-0-executor": "gid_sales"})
    assert "There is no person or group" in text_of(page)
