"""Templates in the admin: S0.2, I52 and I57: versions that never change, and no lost edit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from apps.dispatch.models import OnceTask, Template
from apps.dispatch.services import templates
from apps.journal.models import JournalEntry
from tests import factories
from tests.pages import form_of, page_of, text_of

LIST = "/admin/dispatch/template/"
NEWER = {"type": "object", "properties": {"shop": {"type": "string"}}}


def save(client: Client, template: Template, schema: Any, **changes: str) -> Any:
    form = form_of(page_of(client, template), "schema")
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return client.post(
        f"{LIST}{template.pk}/change/",
        {**form, "by": "json", "schema": text, **changes, "_save": "Save"},
    )


def used(template: Template) -> OnceTask:
    return factories.once_task(factories.user(), template=template, params={"shop": "S1"})


def test_saving_an_edited_schema_makes_the_next_version_and_keeps_the_old(
    admin_client: Client,
) -> None:
    """I52: the version that a task has stays byte for byte what it was."""
    first = factories.template()
    task = used(first)
    answer = save(admin_client, first, NEWER)
    second = Template.objects.get(version=2)
    assert answer["Location"] == f"{LIST}{second.pk}/change/?tab=tasks"
    assert second.schema == NEWER
    kept = Template.objects.get(version=1)
    assert kept.schema == first.schema
    task.refresh_from_db()
    assert (task.template, task.params) == (first, {"shop": "S1"})
    entry = JournalEntry.objects.latest("id")
    assert (entry.event, entry.subject_id) == ("template_version", second.pk)


def test_schema_sent_untouched_makes_no_version(admin_client: Client) -> None:
    template = factories.template()
    form = form_of(page_of(admin_client, template), "schema")
    answer = admin_client.post(f"{LIST}{template.pk}/change/", {**form, "_save": "Save"})
    assert answer.status_code == 302
    assert Template.objects.count() == 1


def test_secret_words_in_a_schema_are_not_redacted(admin_client: Client) -> None:
    schema = {"type": "object", "properties": {"password": {"type": "string"}}}
    template = factories.template(schema=schema)
    assert json.loads(form_of(page_of(admin_client, template), "schema")["schema"]) == schema


def test_older_version_is_shown_and_cannot_be_edited(admin_client: Client) -> None:
    first = factories.template()
    templates.put_template(name=first.name, schema=NEWER, actor="admin:vera")
    page = page_of(admin_client, first)
    assert page.status_code == 200
    assert "photos" in text_of(page)
    assert 'name="schema"' not in page.content.decode()
    answer = admin_client.post(f"{LIST}{first.pk}/change/", {"schema": "{}", "version": "1"})
    assert answer.status_code == 403


def test_edit_of_a_version_that_is_no_longer_the_newest_is_a_conflict(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I57: also when the other version is made while this one is being saved."""
    first = factories.template()
    real = templates.put_template

    def overtaken(**kwargs: Any) -> Template:
        monkeypatch.setattr(templates, "put_template", real)
        real(name=first.name, schema=NEWER, actor="admin:vera")
        return real(**kwargs)

    monkeypatch.setattr(templates, "put_template", overtaken)
    page = save(admin_client, first, {"type": "object", "title": "Mine"})
    assert page.status_code == 409
    text = text_of(page)
    assert "vera changed this" in text
    assert "Mine" in text


WRONG_SCHEMAS = (
    ("{", "The text is not JSON"),
    ("", "required"),
    ("[]", "Write a JSON object"),
    ("5", "Write a JSON object"),
    ('{"type": "object", "type": "object"}', "'type' occurs twice"),
    ('{"type": "array"}', 'whose "type" is "object"'),
    ('{"type": "object", "properties": []}', "Not a JSON Schema"),
    ('{"type": "object", "properties": {"a": {"type": "strng"}}}', "is no type; use one of array"),
    ('{"type": "object", "properties": {"a": {"$ref": "http://x/y"}}}', "only references"),
    ('{"type": "object", "$ref": "#/none"}', "#/none"),
    ('{"type": "object", "title": "\\u0000"}', "NUL"),
    ("[" * 50_000, "at most 20 are read"),
    ("x" * 300_001, "at most 300000"),
)


def test_what_is_no_schema_is_refused_beside_its_box_with_the_text_kept(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    template = factories.template()
    form = {**form_of(page_of(admin_client, template), "schema"), "by": "json", "_save": "Save"}
    for schema, message in WRONG_SCHEMAS:
        with subtests.test(schema=schema[:40]):
            url = f"{LIST}{template.pk}/change/"
            page: Any = admin_client.post(url, {**form, "schema": schema})
            assert page.status_code == 200
            assert message in page.context["adminform"].form.errors["schema"][0]
            assert form_of(page, "schema")["schema"] == schema.strip()
            assert Template.objects.count() == 1


def test_name_that_is_none_is_refused_beside_its_field(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    factories.template("taken")
    form = {**form_of(admin_client.get(f"{LIST}add/"), "schema"), "by": "json", "_save": "Save"}
    for name in ("", "a b", "x" * 101, "á", "taken", "a\0"):
        with subtests.test(name=name):
            page: Any = admin_client.post(f"{LIST}add/", {**form, "name": name})
            assert page.status_code == 200
            assert list(page.context["adminform"].form.errors) == ["name"]
            assert Template.objects.count() == 1
    both: Any = admin_client.post(
        f"{LIST}add/", {**form, "name": "bad name", "schema": '{"type": "objet"}'}
    )
    assert set(both.context["adminform"].form.errors) == {"name", "schema"}


def test_version_that_was_never_used_is_deleted_and_a_used_one_kept(admin_client: Client) -> None:
    """And the page says why."""
    spare = factories.template("spare")
    assert admin_client.post(f"{LIST}{spare.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not Template.objects.exists()
    assert JournalEntry.objects.latest("id").event == "template_deleted"
    template = factories.template()
    task = used(template)
    tasks_deleted = f"/admin/dispatch/oncetask/act/delete_task/?ids={task.pk}"
    admin_client.post(tasks_deleted, {"ids": task.pk, "reason": "x"})
    for page in (
        admin_client.get(f"{LIST}{template.pk}/delete/"),
        admin_client.post(f"{LIST}{template.pk}/delete/", {"post": "yes"}),
    ):
        assert "is kept for them; retire it instead" in text_of(page)
    assert Template.objects.filter(pk=template.pk).exists()


def test_retired_template_is_no_longer_offered_and_can_come_back(admin_client: Client) -> None:
    template = factories.template()
    url = f"{LIST}act/retire/"
    assert admin_client.post(url, {"ids": template.pk, "reason": "Old"}).status_code == 302
    add = admin_client.get("/admin/dispatch/oncetask/add/")
    assert "photo-check v1" not in text_of(add)
    entry = JournalEntry.objects.latest("id")
    assert (entry.event, entry.reason) == ("template_status", "Old")
    assert "Nothing was left to do." in text_of(
        admin_client.post(url, {"ids": template.pk, "reason": "Old"}, follow=True)
    )
    admin_client.post(f"{LIST}act/activate/", {"ids": template.pk, "reason": "New"})
    assert "photo-check v1" in text_of(admin_client.get("/admin/dispatch/oncetask/add/"))


def test_list_shows_the_newest_and_how_many_tasks_of_both_kinds_use_each(
    admin_client: Client,
) -> None:
    factories.template("idle")
    template = factories.template("a-first", NEWER)
    factories.rotation(used(template).executor, template=template, params={"shop": "A"})
    templates.put_template(name="a-first", schema={**NEWER, "title": "x"}, actor="admin:vera")
    page = admin_client.get(LIST)
    rows = page.context["cl"].result_list
    assert [(row.name, row.version, row.is_newest, row.task_count) for row in rows[:2]] == [
        ("a-first", 2, True, 0),
        ("a-first", 1, False, 2),
    ]
    assert "2 tasks" in text_of(page)
    assert "idle v1 newest Active –" in text_of(page)
    newest = admin_client.get(LIST, {"versions": "newest", "q": "a-first"})
    assert [row.version for row in newest.context["cl"].result_list] == [2]
