"""What a search in payloads finds: the same on every database, and nothing that is masked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection

from apps.common.errors import Invalid
from apps.common.json.path import read
from apps.common.json.search import rows_meeting
from apps.jobs.models import Job
from tests.jobs import job_type, jobs
from tests.masks import CODE, PRIVATE_KEY

pytestmark = [pytest.mark.django_db, pytest.mark.both]
COLUMNS = ("context", "result")
BEGIN, END = PRIVATE_KEY[0], PRIVATE_KEY[-1]


def found(*conditions: str) -> list[int]:
    rows = rows_meeting(Job.objects.order_by("pk"), [read(each, COLUMNS) for each in conditions])
    return list(rows.values_list("pk", flat=True))


def stored(text: str) -> int:
    """A job whose context is exactly this text, if the database keeps texts of JSON."""
    [pk] = jobs(1)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobs_job SET context = %s WHERE id = %s", [text, pk])
    return pk


CASES: list[tuple[str, Any, str, bool]] = [
    ("text", {"city": "北京"}, "context.city:北京", True),
    ("other text", {"city": "北京"}, "context.city:上海", False),
    ("part of a text", {"city": "北京市"}, "context.city:北京", False),
    ("case", {"a": "Ab"}, "context.a:ab", False),
    ("accent", {"a": "é"}, "context.a:e", False),
    ("blank at the end", {"a": "ab "}, "context.a:ab", False),
    ("the same blank", {"a": "ab "}, "context.a:ab ", True),
    ("quotes and signs", {"a": 'it\'s "%s" \\ ?'}, 'context.a:it\'s "%s" \\ ?', True),
    ("lines", {"a": "one\ntwo"}, "context.a:one\ntwo", True),
    ("beyond the plane", {"a": "😀"}, "context.a:😀", True),
    ("another one", {"a": "😀"}, "context.a:😁", False),
    ("empty", {"a": ""}, "context.a:", True),
    ("number", {"a": 40}, "context.a:40", True),
    ("number as text", {"a": "40"}, "context.a:40", True),
    ("number otherwise", {"a": 40}, "context.a:40.0", False),
    ("decimals", {"a": -0.25}, "context.a:-0.25", True),
    ("large", {"a": 2**63 - 1}, "context.a:9223372036854775807", True),
    ("all decimals", {"a": 116.39742799999999}, "context.a:116.39742799999999", True),
    ("rounded decimals", {"a": 116.39742799999999}, "context.a:116.397428", False),
    ("sum of decimals", {"a": 0.1 + 0.2}, "context.a:0.30000000000000004", True),
    ("whole decimals", {"a": 1.0}, "context.a:1.0", True),
    ("tiny", {"a": 1e-7}, "context.a:1e-07", True),
    ("beyond doubles", {"a": 2**53 + 1}, "context.a:9007199254740993", True),
    ("beyond columns", {"a": 2**70}, f"context.a:{2**70}", True),
    ("large", {"a": 2.0**70}, "context.a:1.1805916207174113e+21", True),
    ("two numbers", {"a": 1}, "context.a:1,1", False),
    ("true", {"a": True}, "context.a:true", True),
    ("true is no number", {"a": True}, "context.a:1", False),
    ("false", {"a": False}, "context.a:false", True),
    ("false is no number", {"a": False}, "context.a:0", False),
    ("null", {"a": None}, "context.a:null", True),
    ("null is not empty", {"a": None}, "context.a:", False),
    ("missing", {"b": 1}, "context.a:null", False),
    ("missing is not empty", {"b": 1}, "context.a:", False),
    ("deep", {"a": {"b": {"c": [1, {"d": "x"}]}}}, "context.a.b.c[1].d:x", True),
    ("position", {"items": [{"sku": "S6"}, {"sku": "S7"}]}, "context.items[1].sku:S7", True),
    ("other position", {"items": [{"sku": "S6"}, {"sku": "S7"}]}, "context.items[0].sku:S7", False),
    ("lists in lists", {"a": [[1, 2], [3]]}, "context.a[0][1]:2", True),
    ("beyond the list", {"a": [1]}, "context.a[1]:1", False),
    ("key of a list", {"items": [{"sku": "S7"}]}, "context.items.sku:S7", False),
    ("position in no list", {"items": {"sku": "S7"}}, "context.items[0].sku:S7", False),
    ("position in a text", {"a": "x"}, "context.a[0]:x", False),
    ("position twice", {"a": [[7]]}, "context.a[0][0]:7", True),
    ("position twice in one list", {"a": [7]}, "context.a[0][0]:7", False),
    ("digits", {"2026": "x"}, "context.2026:x", True),
    ("digits are no position", ["x", "y"], "context.1:y", False),
    ("underscores", {"a__b": "x"}, "context.a__b:x", True),
    ("underscores are no path", {"a": {"b": "x"}}, "context.a__b:x", False),
    ("key in Chinese", {"城市": {"名": "x"}}, "context.城市.名:x", True),
    (
        "key with blanks and signs",
        {"a b": {"c.d:[0]'%s": 1}},
        'context."a b"."c.d:[0]\'%s":1',
        True,
    ),
    ("key of other case", {"City": "x"}, "context.city:x", False),
    ("object", {"a": {"b": 1}}, 'context.a:{"b": 1}', False),
    ("object without blanks", {"a": {"b": 1}}, 'context.a:{"b":1}', False),
    ("list", {"a": [1, 2]}, "context.a:[1, 2]", False),
    ("list without blanks", {"a": [1, 2]}, "context.a:[1,2]", False),
    ("empty list", {"a": []}, "context.a:[]", False),
    ("text that looks like a list", {"a": "[1, 2]"}, "context.a:[1, 2]", True),
    ("list at the top", [{"a": 1}], "context[0].a:1", True),
    # What is masked is not found: whoever could search for it would guess it.
    ("behind an option with a secret", {"a": ["--token", "x7"]}, "context.a[1]:x7", False),
    ("number behind one", {"a": [["-v"], ["--shop-pin", 1234]]}, "context.a[1][1]:1234", False),
    ("behind one of two words", {"a": ["run", "--apiKey", "x7"]}, "context.a[2]:x7", False),
    ("behind one in Chinese", ["--密码", "x7"], "context[1]:x7", False),
    ("behind another option", {"a": ["--shop", "x7"]}, "context.a[1]:x7", True),
    ("about a secret", {"a": ["--token-count", 7]}, "context.a[1]:7", True),
    ("behind no option", {"a": ["token", "x7"]}, "context.a[1]:x7", True),
    ("behind an option and its value", {"a": ["--token=y", "x7"]}, "context.a[1]:x7", True),
    ("option behind an option", {"a": ["--token", "-v"]}, "context.a[1]:-v", True),
    ("first of a list", {"a": ["x7", "--token"]}, "context.a[0]:x7", True),
    ("line of a key", {"a": [BEGIN, CODE[0], END]}, f"context.a[1]:{CODE[0]}", False),
    ("last line", {"a": [BEGIN, "Qw==", END]}, "context.a[1]:Qw==", False),
    ("line in objects", {"a": [{"n": BEGIN}, {"n": "Qw=="}]}, "context.a[1].n:Qw==", False),
    ("line behind another key", {"a": [BEGIN, "x", END, BEGIN, "Qw"]}, "context.a[4]:Qw", False),
    ("behind a key", {"a": [BEGIN, "x", END, "Qw=="]}, "context.a[3]:Qw==", True),
    ("behind a key in a text", {"a": f"{BEGIN}\nx\n{END}", "b": "Qw"}, "context.b:Qw", True),
    ("before a key", {"b": "ann", "a": [BEGIN, "x", END]}, "context.b:ann", True),
    ("header of a key", {"a": [BEGIN, "Proc-Type: 4,E", "x"]}, "context.a[1]:Proc-Type: 4,E", True),
    ("text at the top", "x", "context.a:x", False),
]


@pytest.mark.parametrize("escaped", [True, False], ids=["escaped", "plain"])
def test_value_at_a_path_is_compared_as_text(escaped: bool) -> None:
    """Also where the stored text has escapes, as Python writes them, and where it has none."""
    job_type()
    expected, actual = {}, {}
    for name, value, condition, holds in CASES:
        pk = stored(json.dumps(value, ensure_ascii=escaped))
        # MySQL keeps such numbers as 1.1805916207174113e+21, and they are shown so.
        is_rounded = name == "beyond columns" and not getattr(connection, "mysql_is_mariadb", True)
        expected[name], actual[name] = holds and not is_rounded, pk in found(condition)

    assert actual == expected


def test_every_condition_must_hold() -> None:
    job_type()
    first, second, third = jobs(3)
    Job.objects.filter(pk=first).update(context={"a": 1, "b": 2}, result={"c": 3})
    Job.objects.filter(pk=second).update(context={"a": 1, "b": 3}, result={"c": 3})
    Job.objects.filter(pk=third).update(context={"a": 1}, result=None)

    assert found("context.a:1") == [first, second, third]
    assert found("context.a:1", "result.c:3") == [first, second]
    assert found("context.a:1", "result.c:3", "context.b:2") == [first]
    assert found("context.a:1", "context.a:2") == []
    assert found() == [first, second, third]


def test_value_is_never_a_part_of_the_statement(subtests: pytest.Subtests) -> None:
    job_type()
    jobs(2)
    for value in ["' OR 1=1 -- ", '") OR 1=1 -- ', "%' OR '1'='1", "\\' OR 1=1 -- ", "%(a)s %s %"]:
        with subtests.test(value=value):
            assert found(f"context.a:{value}") == []


def test_masked_key_anywhere_on_the_path_is_refused(subtests: pytest.Subtests) -> None:
    for name in [
        *("password", "db.password", "password.hint", "api_key", "shop[0].clientSecret"),
        *("X-Api-Key", "auth.Token", "a.b.c.access-key", "cookie[3]"),
    ]:
        with subtests.test(name=name):
            with pytest.raises(Invalid, match="masked, and nobody can search for") as refused:
                rows_meeting(Job.objects.all(), [read(f"context.{name}:x", COLUMNS)])
            assert [each.field for each in refused.value.errors] == ["where"]


def test_text_with_a_secret_cannot_be_guessed(subtests: pytest.Subtests) -> None:
    """Its page shows masks in the text; a search that finds it would confirm the rest."""
    job_type()
    for value in [
        "https://ann:s3cr3t@shop.example/a",
        "https://shop.example/a?access_token=s3cr3t",
        "login failed: pwd=s3cr3t",
        "Bearer s3cr3t-s3cr3t",
    ]:
        with subtests.test(value=value):
            jobs(1, context={"url": value})
            with pytest.raises(
                Invalid, match=r"context\.url is compared with a text that has a pass"
            ):
                found(f"context.url:{value}")
            assert found("context.url:https://••••••@shop.example/a") == []


def test_key_with_a_secret_cannot_be_guessed() -> None:
    job_type()
    jobs(1, context={"https://ann:s3cr3t@shop.example/": {"a": 1}})
    with pytest.raises(Invalid, match="compared with a text that has a password"):
        found('context."https://ann:s3cr3t@shop.example/".a:1')


def test_keys_that_are_masked_can_be_named_otherwise(settings: Any) -> None:
    job_type()
    settings.MASKED_KEYS = ("diagnosis",)
    with pytest.raises(Invalid):
        found("context.diagnosis:x")
    assert found("context.password:x") == []
