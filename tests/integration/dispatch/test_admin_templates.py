"""Templates in the admin: S0.2, I52 and I57: versions that never change, and no lost edit."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest
from django.test import Client

from apps.common.db import is_mysql
from apps.dispatch.models import OnceTask, OperatorScope, Template
from apps.dispatch.services import templates
from apps.journal.models import JournalEntry
from tests import factories
from tests.pages import form_of, page_of, text_of
from tests.statements import sent_by

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
    ('{"type": "object", "properties": {"a": {"type": "strng"}}}', "Not a JSON Schema"),
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


# --- by rows --------------------------------------------------------------------------------------
SHELF = {
    "type": "object",
    "properties": {
        "shop": {"type": "string", "title": "Shop", "minLength": 1, "pattern": "^[A-Z]"},
        "photos": {"type": "integer", "maximum": 20},
        "angle": {"enum": ["front", "left"]},
        "boxes": {"type": "object", "properties": {"size": {"type": "integer"}}},
    },
    "required": ["shop"],
    "additionalProperties": False,
}


def sent(client: Client, template: Template, changes: dict[str, str], draft: str = "") -> Any:
    """What the page answers to its form with these changes; without a draft it is saved."""
    form = form_of(page_of(client, template), "rows-was")
    press = {"_draft": draft} if draft else {"_save": "Save"}
    return client.post(f"{LIST}{template.pk}/change/", {**form, **changes, **press})


def again(client: Client, page: Any, template: Template, changes: dict[str, str]) -> Any:
    form = form_of(page, "schema")
    return client.post(f"{LIST}{template.pk}/change/", {**form, **changes})


def test_rows_make_the_next_version_and_keep_what_they_cannot_say(admin_client: Client) -> None:
    template = factories.template(schema=SHELF)
    page = sent(admin_client, template, {"rows-1-most": "6", "rows-2-choices": "front\r\nabove"})
    assert page.status_code == 302
    schema = Template.objects.get(version=2).schema
    assert schema == {
        **SHELF,
        "properties": {
            **SHELF["properties"],
            "photos": {"type": "integer", "maximum": 6},
            "angle": {"enum": ["front", "above"]},
        },
    }


def test_buttons_of_rows_need_no_script_and_lose_nothing(admin_client: Client) -> None:
    """I52: nothing is saved before it is asked for."""
    template = factories.template(schema=SHELF)
    page = sent(admin_client, template, {"rows-1-name": "pictures", "rows-0-label": ""}, "add")
    page = again(
        admin_client,
        page,
        template,
        {"_draft": "up-4", "rows-4-name": "door", "rows-4-is_secret": "on", "rows-4-most": "8"},
    )
    page = again(admin_client, page, template, {"_draft": "drop-2"})
    page = again(admin_client, page, template, {"_draft": "tab-tasks"})
    page = again(admin_client, page, template, {"_draft": "tab-json"})
    assert Template.objects.count() == 1
    assert "not saved" in text_of(page)
    for line in (
        "Adds the field pictures (whole number).",
        "Adds the field door (text).",
        "Removes the field angle.",
        "Removes the field photos.",
        "Shop: the label Shop becomes –.",
    ):
        assert line in text_of(page)
    assert again(admin_client, page, template, {"_save": "Save"}).status_code == 302
    shelf = SHELF["properties"]
    schema = Template.objects.get(version=2).schema
    assert schema["properties"] == {
        "shop": {"type": "string", "minLength": 1, "pattern": "^[A-Z]"},
        "pictures": shelf["photos"],
        "door": {"type": "string", "maxLength": 8, "secret": True},
        "boxes": shelf["boxes"],
    }
    assert [*schema["properties"]] == ["shop", "pictures", "door", "boxes"]


def test_rows_sent_untouched_make_no_version(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    for number, declared in enumerate(
        (
            {"type": "string", "title": "  two  ", "minLength": 3.0, "maxLength": 1},
            {"type": "number", "minimum": 1e300, "maximum": -0.1, "default": 5},
            {"type": "integer", "minimum": 2.5, "secret": "yes"},
            {"enum": ["b", "a, c", "é"], "title": ""},
            {"type": "array", "items": {"type": "string", "minLength": 2}, "maxItems": 4.0},
            {"type": ["string", "null"], "anyOf": [{"maxLength": 5}]},
            {"type": "string", "format": "email", "x-kind": "picture"},
            {},
        )
    ):
        for name in ("shop", " a b ", "🎉 \"'<b>%s {0}", "x" * 300):
            with subtests.test(declared=declared, name=name):
                schema = {"type": "object", "properties": {name: declared}, "required": []}
                row = factories.template(f"odd-{number}", schema=schema)
                form = form_of(page_of(admin_client, row), "rows-was")
                answer = admin_client.post(f"{LIST}{row.pk}/change/", {**form, "_save": "Save"})
                assert answer.status_code == 302
                assert templates.find(row.name).schema == schema


@pytest.mark.both
def test_another_order_of_the_fields_is_a_version(admin_client: Client) -> None:
    template = factories.template(schema=SHELF)
    if is_mysql():
        page = page_of(admin_client, template)
        assert "MySQL sorts fields by the length of their names." in text_of(page)
        assert b'value="down-' not in page.content
        return
    page = sent(admin_client, template, {}, "down-0")
    assert "Puts the fields in another order." in text_of(page)
    again(admin_client, page, template, {"_save": "Save"})
    assert [*Template.objects.get(version=2).schema["properties"]][:2] == ["photos", "shop"]


def test_wrong_rows_are_refused_beside_their_boxes_with_all_input_kept(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    template = factories.template(schema=SHELF)
    long, odd = "n" * 150, "🎉 \"'<b>%s {0}"
    for changes, said in (
        ({"rows-0-name": "photos"}, "The name 'photos' stands twice"),
        ({"rows-0-name": "  "}, "Give it a name."),
        ({"rows-0-name": "n" * 201}, "At most 200 characters."),
        ({"rows-0-label": "n" * 201}, "at most 200 characters"),
        ({"rows-1-most": "six"}, "Write a whole number"),
        ({"rows-1-most": "1.5"}, "Write a whole number"),
        ({"rows-1-least": "30"}, "That is less than “at least”."),
        ({"rows-0-least": "-1"}, "lengths from 0 on"),
        ({"rows-1-kind": "number", "rows-1-most": "NaN"}, "Write a number such as"),
        ({"rows-2-choices": ""}, "Write the choices, one a line."),
        ({"rows-2-choices": "a\r\nb\r\na"}, "'a' stands twice"),
        ({"rows-0-name": long, "rows-0-is_secret": "on"}, "too long for one that is"),
        ({"rows-1-name": odd, "rows-2-name": odd}, "stands twice"),
    ):
        with subtests.test(changes=changes):
            page = sent(admin_client, template, changes)
            assert page.status_code == 200
            assert said in text_of(page)
            kept = form_of(page, "rows-was")
            assert {name: kept.get(name) for name in changes} == changes
            assert Template.objects.count() == 1
    page = sent(admin_client, template, {"rows-0-name": long, "rows-1-name": odd})
    assert page.status_code == 302
    assert [*Template.objects.get(version=2).schema["properties"]][:2] == [long, odd]


def test_a_hundred_rows_are_the_most_and_more_open_as_json(admin_client: Client) -> None:
    many = {f"n{n}": {"type": "boolean"} for n in range(100)}
    template = factories.template(schema={"type": "object", "properties": many})
    form = form_of(page_of(admin_client, template), "rows-was")
    assert len(form) < 1000
    page = sent(admin_client, template, {}, "add")
    assert "the most there can be" in text_of(page)
    assert len(json.loads(form_of(page, "rows-was")["rows-was"])) == 100
    more = {"type": "object", "properties": {**many, "last": {"type": "string"}}}
    page = page_of(admin_client, factories.template(schema=more))
    assert "It has more than 100 fields" in text_of(page)
    assert json.loads(form_of(page, "schema")["schema"]) == more


def test_what_rows_cannot_say_opens_as_json_and_the_way_back_says_why(
    admin_client: Client,
) -> None:
    combined = {**SHELF, "allOf": [{"minProperties": 1}]}
    template = factories.template(schema=combined)
    page = page_of(admin_client, template)
    assert "allOf judges several fields at once" in text_of(page)
    back = again(admin_client, page, template, {"_draft": "tab-fields", "schema": "{"})
    assert "The text is not JSON" in text_of(back)
    assert form_of(back, "schema")["schema"] == "{"
    plain = json.dumps(SHELF)
    rows = again(admin_client, back, template, {"_draft": "tab-fields", "schema": plain})
    assert form_of(rows, "rows-was")["rows-0-name"] == "shop"


def test_preview_is_the_form_of_tasks_with_its_errors(admin_client: Client) -> None:
    template = factories.template(schema=SHELF)
    values = {"preview-value/shop": "a", "preview-value/photos": "9", "rows-1-most": "6"}
    page = sent(admin_client, template, values, "check")
    assert "less than or equal to 6" in text_of(page)
    assert form_of(page, "rows-was")["preview-value/photos"] == "9"
    values |= {"preview-value/photos": "6"}
    assert "does not match" in text_of(sent(admin_client, template, values, "check"))
    values |= {"preview-value/shop": "A"}
    page = sent(admin_client, template, values, "check")
    assert "A task with these params would be taken." in text_of(page)
    half = sent(admin_client, template, {"rows-1-name": ""}, "1")
    assert "Row 2: Give it a name." in text_of(half)


@pytest.mark.both
def test_tasks_that_fit_are_offered_to_be_moved_and_others_listed(
    admin_client: Client, role_client: Any
) -> None:
    template = factories.template(schema=SHELF)
    ann = factories.user()
    for n in range(3):
        params = {"shop": "A", "photos": 8 if n == 0 else 2}
        factories.once_task(ann, f"Shelf {n}", template=template, params=params)
    factories.rotation(ann, template=template, params={"shop": "A"})
    form = form_of(page_of(admin_client, template), "rows-was")
    [row] = (name for name, value in form.items() if value == "photos")
    page = sent(admin_client, template, {row.replace("name", "most"): "6"}, "tab-fields")
    assert "4 tasks have earlier versions; 3 of them also fit v2. These stay: Shelf 0" in text_of(
        page
    )
    saved = again(admin_client, page, template, {"_save": "Save"})
    page = admin_client.get(saved["Location"])
    assert "Shelf 0 params.photos: The number is greater than 6" in text_of(page)
    assert "Move the 2 once tasks that fit…" in text_of(page)
    [url] = re.findall(r'href="([^"]+/once-tasks/version/[^"]+)"', page.content.decode())
    planned = admin_client.get(html.unescape(url))
    assert "2 rows match 2 will change" in text_of(planned)
    assert "Shelf 2 v1 → v2" in text_of(planned)
    viewer = role_client("viewer").get(saved["Location"])
    assert "Move the" not in text_of(viewer)
    assert "ask somebody who sees them" in text_of(viewer)


def test_who_is_bound_to_a_group_sees_and_counts_only_its_tasks(
    role_client: Any, role_user: Any
) -> None:
    template = factories.template(schema=SHELF)
    own, foreign = factories.user("uid_ann"), factories.user("uid_bob")
    for who in (own, foreign, foreign):
        params = {"shop": "A", "photos": 9}
        factories.once_task(who, f"For {who.name}", template=template, params=params)
    whole = {**SHELF, "properties": {"shop": {"type": "string"}}}
    newest = templates.put_template(name=template.name, schema=whole, actor="admin:vera")
    OperatorScope.objects.create(operator=role_user("operator"), executor=own)
    client = role_client("operator")
    text = text_of(client.get(f"{LIST}{newest.pk}/change/", {"tab": "tasks"}))
    assert "1 task has an earlier version; 0 fits v2 as well." in text
    assert "For uid_ann" in text
    assert "uid_bob" not in text
    versions = text_of(client.get(f"{LIST}{newest.pk}/change/", {"tab": "versions"}))
    assert "v1 active 1 task" in versions
    assert "v1 Active 1 task" in text_of(client.get(LIST))


def test_statements_do_not_grow_with_tasks(admin_client: Client) -> None:
    template = factories.template(schema=SHELF)
    ann, counts = factories.user(), []
    factories.once_task(ann, template=template, params={"shop": "A", "photos": 9})
    none = {**SHELF, "properties": {**SHELF["properties"], "photos": False}}
    newest = templates.put_template(name=template.name, schema=none, actor="admin:vera")
    for number in (1, 20):
        for n in range(number):
            factories.once_task(
                ann, f"Shelf {n}", template=template, params={"shop": "A", "photos": n}
            )
        page_of(admin_client, newest)
        counts.append(len(sent_by(lambda: page_of(admin_client, newest))))
    assert counts[0] == counts[1]


def test_who_may_only_look_reads_the_rows(role_client: Any) -> None:
    template = factories.template(schema=SHELF)
    page = page_of(role_client("viewer"), template)
    text = text_of(page)
    assert "photos – whole number no –20 no" in text
    assert "front · left" in text
    assert "Save v2" not in text
    whole = text_of(role_client("viewer").get(f"{LIST}{template.pk}/change/", {"tab": "json"}))
    assert '"pattern": "^[A-Z]"' in whole
