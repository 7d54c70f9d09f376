"""The inbox in the admin: what was refused, why, and the two ways out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from apps.common import clock
from apps.jobs.models import InboxRow
from tests import factories
from tests.integration.jobs.admin.pages import buttons
from tests.pages import text_of

pytestmark = pytest.mark.django_db
URL = "/admin/jobs/inboxrow/"


def refused(**values: Any) -> InboxRow:
    row = {"type": "mall", "error": "There is no job type 'mall'", "refused_at": clock.now()}
    return InboxRow.objects.create(**{**row, **values})


def test_the_list_has_what_was_refused_and_the_page_what_is_wrong_now(
    role_client: Callable[[str], Client],
) -> None:
    row = refused(context='{"to": "ann", "password": "s3cr3t-word"}')
    InboxRow.objects.create(type="waiting.still")
    client = role_client("operator")
    listed = client.get(URL).content.decode()
    assert "no job type" in listed and "waiting.still" not in listed
    shown = client.get(f"{URL}{row.pk}/change/")
    page = shown.content.decode()
    assert "There is no job type" in page and "s3cr3t-word" not in page
    # Both ways out; who only sees has neither.
    assert buttons(shown) == {"Discard"} and "Correct" in text_of(shown)
    seen = role_client("viewer").get(f"{URL}{row.pk}/change/")
    assert buttons(seen) == set() and "Correct" not in text_of(seen)
    factories.job_type("mall")
    assert (
        "Nothing is wrong with it any more" in client.get(f"{URL}{row.pk}/change/").content.decode()
    )


def test_a_correction_keeps_masked_secrets_and_names_what_is_still_wrong(
    role_client: Callable[[str], Client],
) -> None:
    factories.job_type("mail")
    row = refused(context='{"to": "ann", "password": "s3cr3t-word"}', job_key="a b")
    client = role_client("configurer")
    url = f"{URL}{row.pk}/change/"
    form = client.get(url).context["adminform"].form
    data = {name: form[name].value() or "" for name in form.fields}
    data |= {"type": "mail", "reason": "typo", "run_at_0": "", "run_at_1": ""}
    assert "s3cr3t-word" not in data["context"]
    page = client.post(url, data)
    assert page.context["adminform"].form.errors.keys() == {"job_key"}
    page = client.post(url, {**data, "job_key": "ab"})
    assert page.status_code == 302, page.context["adminform"].form.errors
    row.refresh_from_db()
    assert (row.type, row.job_key, row.refused_at, row.error) == ("mail", "ab", None, "")
    assert json.loads(row.context) == {"to": "ann", "password": "s3cr3t-word"}


def test_text_that_is_no_json_shows_no_secret_and_who_only_sees_may_not_write(
    role_client: Callable[[str], Client],
) -> None:
    row = refused(context='{"password": "s3cr3t-word", ')
    url = f"{URL}{row.pk}/change/"
    for role in ("viewer", "operator", "configurer"):
        assert "s3cr3t-word" not in role_client(role).get(url).content.decode()
    assert role_client("viewer").post(url, {"type": "mail"}).status_code == 403
    row.refresh_from_db()
    assert row.type == "mall"


def test_of_a_context_that_is_too_large_the_page_shows_the_beginning(
    role_client: Callable[[str], Client],
) -> None:
    context = '{"password": "s3cr3t-word", "a": "' + "x" * 2_000_000
    row = refused(context=context)
    for role in ("operator", "configurer"):
        page = role_client(role).get(f"{URL}{row.pk}/change/").content.decode()
        assert f"A text of {len(context)} bytes" in page and "s3cr3t-word" not in page
        assert "xxx … (" in page and len(page) < 200_000


def test_limits_hide_the_rows_of_other_types(role_client: Callable[[str], Client]) -> None:
    from django.contrib.auth.models import User

    from apps.jobs.models import JobScope

    own, foreign = refused(type="mine"), refused(type="theirs")
    client = role_client("operator")
    person = User.objects.get(pk=client.session["_auth_user_id"])
    JobScope.objects.create(operator=person, type="mine")
    listed = client.get(URL).content.decode()
    assert "mine" in listed and "theirs" not in listed
    assert client.get(f"{URL}{foreign.pk}/change/").status_code in (302, 404)
    assert client.get(f"{URL}{own.pk}/change/").status_code == 200
