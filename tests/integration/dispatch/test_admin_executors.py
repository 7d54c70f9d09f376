"""Executors in the admin: S0.5, S0.17, S0.33, I55, I57 and I58 for forms, actions and CSV."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from apps.dispatch.models import Executor, Membership
from apps.dispatch.services import executors, pull
from apps.journal.models import JournalEntry
from tests import callback, factories
from tests.pages import form_of, page_of, text_of

LIST = "/admin/dispatch/executor/"


def save(client: Client, executor: Executor, **changes: Any) -> Any:
    """The form of the executor sent with changes."""
    page = page_of(client, executor)
    form = {**form_of(page, "title"), **changes, "_save": "Save"}
    return client.post(f"{LIST}{executor.pk}/change/", form)


def members_of(group: Executor) -> list[str]:
    return executors.member_names(group)


def test_people_and_groups_are_suggested_with_titles(admin_client: Client) -> None:
    factories.user("uid_ann", title="Photo fan")
    group = factories.group("gid_photo", members=["uid_ann", "uid_bob"])
    executors.update_executor(
        executor=group, changes={"title": "Shelf photos"}, actor=factories.OPERATOR
    )

    def suggested(**asked: Any) -> dict[str, str]:
        answer = admin_client.get(f"{LIST}names/", asked).json()
        return dict(zip(answer["names"], answer["labels"], strict=True))

    assert suggested(term="photo") == {
        "gid_photo": "Shelf photos · 2 people",
        "uid_ann": "Photo fan",
    }
    assert suggested(term="photo", kind="user") == {"uid_ann": "Photo fan"}
    assert suggested(term="uid", group=group.pk) == {"uid_ann": "Photo fan", "uid_bob": ""}
    assert suggested(term="uid", group=0) == {"uid_ann": "Photo fan", "uid_bob": ""}


# --- the list ---------------------------------------------------------------------------------
def test_filters_and_search(admin_client: Client, subtests: pytest.Subtests) -> None:
    factories.user("uid_x", title="Ann")
    factories.user("uid_y", enabled=False)
    factories.group("gid_a", members=["uid_x"])
    factories.group("gid_b")
    cases: list[tuple[dict[str, str], list[str]]] = [
        ({}, ["gid_a", "gid_b", "uid_x", "uid_y"]),
        ({"kind": "group"}, ["gid_a", "gid_b"]),
        ({"enabled": "False"}, ["uid_y"]),
        ({"group": "gid_a"}, ["uid_x"]),
        ({"q": "Ann"}, ["uid_x"]),
        ({"q": "id_b"}, ["gid_b"]),
    ]
    for query, found in cases:
        with subtests.test(query=query):
            rows = admin_client.get(LIST, query).context["cl"].result_list
            assert [row.name for row in rows] == found
    text = text_of(admin_client.get(LIST))
    assert "1 member" in text and "in 1 group" in text


def test_list_of_people_or_of_groups_counts_as_no_filter(admin_client: Client) -> None:
    empty = text_of(admin_client.get(LIST, {"kind": "user"}))
    assert "Nothing here yet" in empty and "Reset filters" not in empty
    factories.group("gid_a", members=["uid_x"])
    page = admin_client.get(LIST, {"kind": "user"})
    assert "1 row" in text_of(page) and "person or group" not in text_of(page)
    assert "kind" not in [each["text"] for each in page.context["cl"].headers]
    assert page.context["cl"].chips == []
    found = admin_client.get(LIST, {"kind": "user", "enabled": "False"})
    assert [chip.text for chip in found.context["cl"].chips] == ["Enabled: no"]
    assert "Nothing found" in text_of(found)
    assert "kind" in [each["text"] for each in admin_client.get(LIST).context["cl"].headers]


def test_list_says_what_people_have_in_hand(
    admin_client: Client, frozen_clock: Any, client: Client
) -> None:
    ann = factories.user("uid_ann")
    assert "In hand" not in text_of(admin_client.get(LIST))
    factories.once_task(ann, title="Count the shelf", lease_seconds=600)
    held = callback.taken(ann)
    page = admin_client.get(LIST)
    assert "In hand" in text_of(page) and "Count the shelf until" in text_of(page)
    assert f"/admin/dispatch/dispatch/{held.pk}/change/" in page.content.decode()
    frozen_clock.advance(seconds=660)
    assert "Count the shelf 1 min late" in text_of(admin_client.get(LIST))
    viewer = User.objects.create_user("of-people", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_executor"))
    client.force_login(viewer)
    assert "Count the shelf" not in text_of(client.get(LIST))


def test_page_of_a_person_gives_on_what_they_have_in_hand(
    admin_client: Client, role_client: Any
) -> None:
    ann = factories.user("uid_ann")
    factories.once_task(ann)
    give = f"/admin/dispatch/dispatch/{callback.taken(ann).pk}/give/"
    assert give in page_of(admin_client, ann).content.decode()
    page = page_of(role_client("viewer"), ann)
    assert "Open dispatch" in text_of(page) and give not in page.content.decode()


def test_executors_are_suggested_by_their_names_and_titles(admin_client: Client) -> None:
    for n in range(25):
        factories.user(f"uid_a{n:02}")
    Executor.objects.filter(pk=factories.user("uid_b").pk).update(title="Ann Baker")
    answer = admin_client.get(f"{LIST}names/", {"term": "uid_a"}).json()
    assert answer["names"] == [f"uid_a{n:02}" for n in range(20)]
    assert admin_client.get(f"{LIST}names/", {"term": "%"}).json()["names"] == []
    found = admin_client.get(f"{LIST}names/", {"term": "bak"}).json()
    assert found == {"names": ["uid_b"], "labels": ["Ann Baker"]}
    assert admin_client.get(f"{LIST}names/", {"term": "\0" * 10_000}).status_code == 200


# --- the form ---------------------------------------------------------------------------------
def test_group_is_made_with_its_members_by_the_services(admin_client: Client) -> None:
    factories.user("uid_old")
    form = form_of(admin_client.get(f"{LIST}add/"), "name")
    form |= {"name": "gid_new", "title": "New", "add_members": "uid_old, uid_fresh\r\nuid_old"}
    asked = admin_client.post(f"{LIST}add/", form)
    assert "There is nobody called uid_fresh yet." in text_of(asked)
    assert not Executor.objects.filter(name="gid_new").exists()
    form["makes_new"] = "on"
    answer = admin_client.post(f"{LIST}add/", {**form, "_save": "Save"})
    assert answer.status_code == 302
    group = Executor.objects.get(name="gid_new")
    assert (group.title, group.enabled, group.created_by) == ("New", True, "admin:admin")
    assert members_of(group) == ["uid_fresh", "uid_old"]
    journal = JournalEntry.objects.filter(subject_id=group.pk, type_or_task="executor")
    events = [entry.event for entry in journal.order_by("id")]
    assert events == ["executor_created", "members_changed"]


WRONG_NAMES = (
    ("alice", "is not the name of a person or group"),
    ("uid a", "is not the name of a person or group"),
    ("uid_á", "is not the name of a person or group"),
    ("uid_taken", "exists already"),
    ("uid_" + "x" * 200, "at most 128 characters"),
    ("", "required"),
    ("uid_a\0", "Null characters"),
)


def test_name_that_is_none_is_refused_beside_its_field(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    factories.user("uid_taken")
    form = form_of(admin_client.get(f"{LIST}add/"), "name") | {"title": "Typed", "_save": "1"}
    for name, message in WRONG_NAMES:
        with subtests.test(name=name):
            page = admin_client.post(f"{LIST}add/", {**form, "name": name})
            assert page.status_code == 200
            errors = page.context["adminform"].form.errors
            assert list(errors) == ["name"]
            assert message in errors["name"][0]
            assert form_of(page, "name")["title"] == "Typed"
            assert Executor.objects.count() == 1


def test_form_without_the_true_version_is_stale(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    user = factories.user(title="Old")
    form = {**form_of(page_of(admin_client, user), "title"), "title": "New", "_save": "Save"}
    for version in ("", "0", "1.0", " 1", "abc", "9" * 5000):
        with subtests.test(version=version[:40]):
            page = admin_client.post(f"{LIST}{user.pk}/change/", {**form, "version": version})
            assert page.status_code == 409
            user.refresh_from_db()
            assert user.title == "Old"


def test_row_that_was_deleted_meanwhile_is_not_found(admin_client: Client) -> None:
    user = factories.user()
    form = form_of(page_of(admin_client, user), "title")
    url = f"{LIST}{user.pk}/change/"
    executors.remove_executor(executor=user, actor="admin:vera")
    assert admin_client.post(url, form).status_code == 404


def test_members_are_added_and_removed_without_touching_the_others(admin_client: Client) -> None:
    """S0.17, S0.33: the next pull goes by it, also beside a change made meanwhile."""
    group = factories.group(members=["uid_a", "uid_b"])
    form = form_of(page_of(admin_client, group), "title")
    executors.change_members(group=group, add=["uid_c"], actor="admin:vera")
    form |= {"add_members": "uid_d", "makes_new": "on", "remove_members": "uid_a", "_save": "Save"}
    assert admin_client.post(f"{LIST}{group.pk}/change/", form).status_code == 302
    assert members_of(group) == ["uid_b", "uid_c", "uid_d"]
    factories.once_task(group)
    assert isinstance(callback.take_next(factories.member("uid_a")), pull.Nothing)
    assert not isinstance(callback.take_next(factories.member("uid_d")), pull.Nothing)


def test_wrong_members_are_refused_beside_their_box_and_nobody_joins(admin_client: Client) -> None:
    group = factories.group(members=["uid_a"])
    form = {**form_of(page_of(admin_client, group), "title"), "title": "Not saved", "_save": "Save"}
    for field, typed, message in (
        ("add_members", "gid_other", "is a group"),
        ("add_members", "Bob", "is not the name of a person or group"),
        ("remove_members", "uid_ä", "is not the name of a person or group"),
        ("add_members", " ".join(f"uid_{n}" for n in range(1001)), "At most 1000 members"),
    ):
        page = admin_client.post(f"{LIST}{group.pk}/change/", {**form, field: typed})
        assert page.status_code == 200
        errors = page.context["adminform"].form.errors
        assert message in errors[field][0]
        group.refresh_from_db()
        assert group.title == ""
        assert members_of(group) == ["uid_a"]


# --- operators with limits --------------------------------------------------------------------
def test_operator_with_limits_sees_no_other_group_and_brings_no_stranger_into_view(
    limited: Any,
) -> None:
    """ASVS 8.2.2: joining a visible group would show the stranger's dispatches."""
    for name in ("gid_mine", "gid_other"):
        factories.group(name, members=["uid_mine"])
    group, stranger = factories.member("gid_mine"), factories.user("uid_other")
    operator = limited(group, factories.member("uid_mine"))
    exported = operator.get(f"{LIST}export/").content.decode("utf-8-sig")
    assert "gid_other" not in exported
    trial = operator.post(f"{LIST}import/", {"text": exported})
    assert "0 new, 0 changed, 2 unchanged" in text_of(trial)

    page = save(operator, group, add_members="uid_other")
    assert "You may not add uid_other" in text_of(page)
    imported = operator.post(f"{LIST}import/", {"text": "name,groups\nuid_other,gid_mine\n"})
    assert "There is no person or group" in text_of(imported)
    assert not Membership.objects.filter(user=stranger).exists()
