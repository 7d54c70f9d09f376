"""Templates in the admin, edited by rows: what these cannot say is kept, and nothing is lost."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest
from django.test import Client

from apps.common.db import is_mysql
from apps.dispatch.models import OperatorScope, Template
from apps.dispatch.services import templates
from tests import factories
from tests.environment import Deal
from tests.pages import form_of, page_of, text_of
from tests.statements import sent_by

LIST = "/admin/dispatch/template/"
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
    """Each field under each name, in the short run under half of them."""
    deal = Deal(2)
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
        for name in deal(("shop", " a b ", "🎉 \"'<b>%s {0}", "x" * 300)):
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
    told = text_of(admin_client.get(f"{LIST}{template.pk}/change/", {"tab": "tasks"}))
    assert "Tasks 4" in told and "4 tasks have v1. No task has an earlier version." in told
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
    assert "Tasks 1" in text and "For uid_ann" in text
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
