"""The admin as a whole: who gets in, what the menu shows, and pages that bear any address."""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from apps.alerts.models import Channel
from apps.common.clock import now
from taskplatform import menu
from taskplatform.menu import SYSTEM as SYSTEM_BOXES
from taskplatform.system_page import PAGES, states
from tests import factories
from tests.environment import Deal
from tests.pages import inline_code_of, joined_in, nothing_drawn, text_of

PASSWORD = "correct horse battery"

BAD_ADDRESSES = {
    "a year that no date has": {"date_joined__year": "99999"},
    "a year at the end of time": {"date_joined__gte": "9999-12-31 23:59:59"},
    "a regular expression": {"username__regex": "("},
    "a lookup into a relation": {"executor__operator_scopes__operator__password__startswith": "m"},
    "an unknown column": {"nope": "1"},
    "a key of 600 characters": {"x" * 600: "1"},
    "a value of 600 characters": {"state": "x" * 600},
    "NUL in a value": {"state": "a\0b"},
    "a state that is none": {"state": "nope"},
    "a name with a blank": {"executor": "uid a"},
    "a task that is no number": {"task": "1_000"},
    "a task beyond 64 bits": {"task": "9" * 19},
    "a day that is none": {"from_day": "2026-02-30"},
    "the last day of all": {"to_day": "9999-12-31"},
    "page 0": {"p": "0"},
    "a page far off": {"p": "99999999999999999999"},
    "a page that is no number": {"p": "²"},
    "an order that is none": {"o": "x.-99.4"},
    "facets": {"_facets": "True"},
    "a foreign column to point at": {"_to_field": "password"},
    "a search of 20 KB": {"q": "x" * 20_000},
    "a search with NUL": {"q": "a\0b"},
    "a search beyond 64 bits": {"q": "9" * 40},
}


def changelists() -> list[str]:
    return [
        reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        for model in admin.site._registry
    ]


@pytest.mark.parametrize("is_each_drawn", [False, pytest.param(True, marks=pytest.mark.long)])
def test_no_address_of_any_list_ends_in_a_server_error(
    admin_client: Client, subtests: pytest.Subtests, is_each_drawn: bool
) -> None:
    """Each case with each list, in the short run with a third of them; drawn are all of these, or
    one of each case and each list."""
    factories.once_task(factories.group(members=["uid_alice"]))
    lists = random.sample(changelists(), len(changelists()))
    deal = Deal(3)
    for number, (case, query) in enumerate(BAD_ADDRESSES.items()):
        drawn = lists if is_each_drawn else [lists[number % len(lists)]]
        with subtests.test(case=case):
            for url in {*deal(lists), *drawn}:
                with nullcontext() if url in drawn else nothing_drawn():
                    page = admin_client.get(url, query)
                assert page.status_code in {200, 302, 400}, url
                assert len(page.content) < 200_000, url


def test_search_is_cut_to_a_hundred_characters_before_the_page_repeats_it(
    admin_client: Client,
) -> None:
    url = reverse("admin:dispatch_executor_changelist")
    page = admin_client.get(url, {"q": "é" * 300, "kind": "user"})
    assert page.status_code == 302
    shorter = admin_client.get(page["Location"])
    assert shorter.status_code == 200
    assert shorter.context["cl"].query == "é" * 100
    assert "kind=user" in page["Location"]


def test_page_of_a_row_that_is_none_is_not_found_without_an_error(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    for pk in ["0", "abc", "9" * 30, "-1", "%00", "1%2F..", "٩٩٩٩٩"]:
        with subtests.test(pk=pk), nothing_drawn():
            for url in changelists():
                for address in (f"{url}{pk}/change/", f"{url}{pk}/history/"):
                    assert admin_client.get(address).status_code in {302, 404}, address


def has_no_code(page: Any) -> bool:
    policy = page["Content-Security-Policy"].split("style-src")[0]
    return inline_code_of(page) == [] and "'unsafe-inline'" not in policy


def test_every_page_comes_without_code_written_into_it(admin_client: Client) -> None:
    """Those of the menu are opened below."""
    of_menu = {tab.link for tab in admin_client.get(reverse("admin:index")).context["menu"].tabs}
    task = factories.once_task(
        factories.group(members=["uid_alice"]), template=factories.template(), params={"shop": "S1"}
    )
    pages = [reverse("admin:index"), reverse("admin:dispatch_executor_import")]
    for url in changelists():
        pages += [url, f"{url}add/"]
    for row in (task, task.executor, task.template):
        name = f"admin:dispatch_{row._meta.model_name}"
        pages += [
            reverse(f"{name}_change", args=[row.pk]),
            reverse(f"{name}_history", args=[row.pk]),
        ]
        pages += [reverse(f"{name}_delete", args=[row.pk])]
    pages += [reverse("admin:dispatch_oncetask_act", args=["pause"]) + f"?ids={task.pk}"]
    pages += [
        reverse("admin:password_change"),
        reverse("admin:auth_user_password_change", args=[1]),
    ]
    seen = 0
    for url in (each for each in pages if each not in of_menu):
        page = admin_client.get(url)
        assert page.status_code in {200, 302, 403, 404}, url
        if page.status_code == 200:
            seen += 1
            assert has_no_code(page), url
    assert seen > 20
    for url in (reverse("admin:login"), reverse("docs")):
        assert inline_code_of(Client().get(url)) == [], url


# --- who sees what ----------------------------------------------------------------------------
EVERYBODY = {
    "": {
        "Home": ["Home"],
        "Problems": ["Inbox", "Failures", "Alerts"],
        "Reports": ["Reports", "Sent regularly"],
    },
    "Plan": {
        "Tasks": ["Once", "Repeating", "Templates", "Older"],
        "Flows": ["Flows", "Runs"],
        "Schedules": ["Schedules"],
    },
    "Work": {
        "Dispatches": ["Dispatches", "Older"],
        "People": ["People", "Groups"],
        "Jobs": ["Jobs", "Types", "Handlers", "Inbox", "Older"],
        "Workers": ["Workers", "Pools", "Slices", "asyncflow"],
    },
    "Platform": {"Activity": ["All", "By people", "Bulk runs"], "System": ["System"]},
}
SYSTEM = {
    "Health": ["Checks", "Capacity"],
    "Alerting": ["Channels", "Alert rules", "Deliveries"],
    "Access": ["API keys"],
    "Export": ["Sinks", "Refused entries"],
}


def shown_in_menu(page: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tabs by group and entry, and those of the system by box."""

    def titles(entries: Any) -> dict[str, list[str]]:
        return {str(each.title): [str(tab.title) for tab in each.tabs] for each in entries}

    menu = page.context["menu"]
    return {str(title): titles(each) for title, each in menu.groups}, titles(menu.system)


@pytest.mark.parametrize("role", ["viewer", "operator", "configurer"])
def test_menu_shows_what_a_role_may_see(role_client: Any, role: str) -> None:
    page = role_client(role).get(reverse("admin:index"))
    system = {**SYSTEM, "Health": [*SYSTEM["Health"], *["Consistency"][: role == "configurer"]]}
    assert shown_in_menu(page) == (EVERYBODY, system)
    items = [i["title"] for group in page.context["sidebar_navigation"] for i in group["items"]]
    assert [str(each) for each in items] == [name for group in EVERYBODY.values() for name in group]


def test_every_page_of_the_menu_opens_and_says_where_it_is(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    """One entry is marked, and beside the title the tab of the page, where there are several."""
    menu = admin_client.get(reverse("admin:index")).context["menu"]
    assert len(menu.tabs) == 43
    for tab in menu.tabs:
        with subtests.test(page=tab.link):
            page: Any = admin_client.get(tab.link)
            assert page.status_code == 200
            assert has_no_code(page)
            groups = page.context["sidebar_navigation"]
            here = [item for group in groups for item in group["items"] if item["active"]]
            assert len(here) == 1
            beside = page.context.get("header_tabs")
            if beside:
                marked = [link for _title, link, is_open in beside["tabs"] if is_open]
                assert marked == [tab.link]
                link = escape(tab.link)
                assert f'<a href="{link}" aria-current="page">' in page.content.decode()


def test_lists_without_a_place_in_the_menu_come_last_by_their_app(
    admin_client: Client, role_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of apps that somebody adds; only who may see the rows has them."""
    monkeypatch.setattr(menu, "SYSTEM", ())
    theirs = {
        "Alerts": ["Alert rules", "Channels", "Deliveries"],
        "Journal": ["Refused entries", "Sinks"],
    }
    alone = {
        "Access": ["Accounts", "API keys", "Roles"],
        "Sign-in protection": ["Access attempts", "Access logs"],
    }
    assert last_groups(role_client("viewer")) == {**theirs, "Access": ["API keys"]}
    assert last_groups(admin_client) == {**theirs, **alone}


def last_groups(client: Client) -> dict[str, list[str]]:
    page: Any = client.get(reverse("admin:index"))
    known = {str(title) for title, _entries in page.context["menu"].groups}
    groups = page.context["sidebar_navigation"]
    shown = {str(each["title"]): [str(item["title"]) for item in each["items"]] for each in groups}
    return {title: names for title, names in shown.items() if title not in known}


def test_person_without_a_role_sees_only_home(client: Client, db: None) -> None:
    client.force_login(
        User.objects.create_user("new", is_staff=True),
        backend="django.contrib.auth.backends.ModelBackend",
    )
    page = client.get(reverse("admin:index"))
    assert shown_in_menu(page) == ({"": {"Home": ["Home"]}}, {})
    assert "ask an administrator for a role" in text_of(page)
    assert client.get(reverse("system")).status_code == 403


def test_who_may_only_add_rows_has_the_pages_that_there_are(client: Client, db: None) -> None:
    """Django names the model to them, without an address of its list."""
    person = User.objects.create_user("adds", is_staff=True)
    person.user_permissions.add(Permission.objects.get(codename="add_oncetask"))
    client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
    assert shown_in_menu(client.get(reverse("admin:index"))) == ({"": {"Home": ["Home"]}}, {})


def test_states_of_the_system_are_said_in_the_language_of_who_asks(admin_client: Client) -> None:
    for language, words in (("en", " 0 on "), ("zh-hans", " 0 个启用 ")):
        page = admin_client.get(reverse("system"), headers={"Accept-Language": language})
        assert words in text_of(page)


def test_system_says_what_its_pages_have_found(admin_client: Client) -> None:
    first = text_of(admin_client.get(reverse("system")))
    assert "Channels Where alerts go: chat, webhook or mail none set" in first
    Channel.objects.create(
        name="ops", kind="webhook", url="https://example.org/", created_at=now(), updated_at=now()
    )
    states.forget()
    assert "webhook or mail 1 on" in text_of(admin_client.get(reverse("system")))


@pytest.mark.parametrize(
    ("role", "forms"),
    [("viewer", []), ("configurer", ["alerts_channel", "alerts_alertrule", "access_apiclient"])],
)
def test_system_leads_to_the_forms_of_what_a_person_may_add(
    role_client: Any, role: str, forms: list[str]
) -> None:
    boxes = role_client(role).get(reverse("system")).context["boxes"]
    found = [page["add"] for box in boxes for page in box["pages"] if page["add"]]
    assert found == [reverse(f"admin:{form}_add") for form in forms]


def test_system_names_every_one_of_its_pages() -> None:
    places = {place.url or place.model for entry in SYSTEM_BOXES for place in entry.places}
    assert places == PAGES.keys()


# --- signing in -------------------------------------------------------------------------------
def sign_in(client: Client, name: str, password: str, **extra: Any) -> Any:
    return client.post(reverse("admin:login"), {"username": name, "password": password, **extra})


def test_next_page_is_one_of_this_site(client: Client, db: None) -> None:
    User.objects.create_superuser("root", password=PASSWORD)
    page = sign_in(client, "root", PASSWORD, next="//evil.example/")
    assert page["Location"] == reverse("admin:index")


def test_name_is_closed_for_an_address_after_five_wrong_passwords(client: Client, db: None) -> None:
    User.objects.create_superuser("root", password=PASSWORD)
    User.objects.create_superuser("other", password=PASSWORD)
    answers = [sign_in(client, "root", "wrong").status_code for _ in range(5)]
    assert answers == [200, 200, 200, 200, 429]
    closed = sign_in(client, "root", PASSWORD)
    assert closed.status_code == 429
    assert closed["Retry-After"] == "900"
    assert "Try again in 15 minutes" in text_of(closed)
    assert inline_code_of(closed) == []
    assert sign_in(client, "other", PASSWORD).status_code == 302


def test_administrator_opens_a_closed_name_again(client: Client, admin_client: Client) -> None:
    User.objects.create_superuser("root", password=PASSWORD)
    for _ in range(5):
        sign_in(client, "root", "wrong")
    listed = reverse("admin:axes_accessattempt_changelist")
    (attempt,) = admin_client.get(listed, {"q": "root"}).context["cl"].result_list
    url = reverse("admin:axes_accessattempt_delete", args=[attempt.pk])
    assert admin_client.post(url, {"post": "yes"}).status_code == 302
    assert sign_in(client, "root", PASSWORD).status_code == 302


def test_login_of_a_megabyte_is_refused_before_it_is_hashed(client: Client, db: None) -> None:
    User.objects.create_superuser("root", password=PASSWORD)
    assert sign_in(client, "root", "x" * 1_000_000).status_code == 413


def test_long_form_is_read_only_of_those_who_have_signed_in(admin_user: User) -> None:
    """Decoding one of 9 MB takes a processor for seconds, and Django reads it for its token."""
    client = Client(enforce_csrf_checks=True)
    form = {"a": "x" * 20_000}
    for path in ("/admin/", "/admin/jobs/job/", "/health/live", "/"):
        assert client.post(path, {"a": "x"}).status_code == 403, path
        sent_away = client.post(path, form)
        assert (sent_away.status_code, sent_away.headers["Location"].partition("?")[0]) == (
            302,
            "/admin/login/",
        ), path
    # Those who send a key are asked for it first.
    assert client.post("/api/v1/jobs/", form).status_code == 401
    client.force_login(admin_user)
    encoded = "application/x-www-form-urlencoded"
    assert client.post("/admin/", "a=" + "%41" * 1_000_000, encoded).status_code == 403
    too_long = client.post("/admin/", "a=" + "%41" * 1_050_000, encoded)
    assert too_long.status_code == 413 and "send less at a time" in too_long.content.decode()
    # A file is not decoded.
    assert client.post("/admin/", {"a": "x" * 4_000_000}).status_code == 403


def test_chinese_and_latin_letters_are_parted_by_a_blank(admin_client: Client) -> None:
    """On all lists and all forms for new rows, wherever a name is put into a sentence."""
    admin_client.defaults["HTTP_ACCEPT_LANGUAGE"] = "zh-hans"
    lists = changelists()
    adds = [f"{address}add/" for address in lists]
    found, said = {}, ""
    for url in (*lists, *adds, reverse("system"), reverse("admin:index")):
        page = admin_client.get(url)
        # Some tables have no form for new rows.
        if page.status_code == 200:
            found |= dict.fromkeys(joined_in(page), url)
            said += text_of(page)
    assert found == {}
    assert "添加 API 密钥" in said and "添加模板" in said
