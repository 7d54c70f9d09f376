"""Searching texts finds what pages show of them, and no secret, on both databases."""

from __future__ import annotations

import random
from itertools import accumulate
from typing import Any

import pytest
from django.db.models import F
from django.test import Client

from apps.common.errors import Invalid
from apps.common.masking import MASK, redact, search
from apps.common.masking.names import MAX_LETTERS, MAX_NAME, forget_declared
from apps.common.masking.search import Masked, says
from apps.common.masking.spelling import weight
from apps.dispatch.services.templates import put_template
from apps.jobs.models import Job
from apps.jobs.services.types import create_type, update_type
from tests.integration.jobs.admin.pages import LIST, shown
from tests.jobs import job_type, jobs
from tests.pages import text_of

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def found(text: str) -> list[int]:
    return list(Job.objects.filter(says("memo", text)).order_by("pk").values_list("pk", flat=True))


MEMOS = (
    "https://ann:s3cr3t@shop.example/a is down",
    "GET https://shop.example/a?n=1&access_token=s3cr3t failed",
    "login failed: pwd=s3cr3t",
    "API-Key=s3cr3t, refused",
    "/hook?n=1&sig=s3cr3t is old",
    "sent 'Authorization: Bearer s3cr3t-s3cr3t'",
    "sent Basic  s3cr3t+token=s3cr3t/==",
    "password=Bearer s3cr3t-s3cr3t",
    "url=https://ann:s3cr3t@shop.example/a",
    '400: {"user": "ann", "api_key": "s3cr3t\\"s3cr3t"}',
    "KeyError: {'pwd': 's3cr3t', 'n': 1}",
    "ran with password = s3cr3t",
    "ran with Password='s3cr3t s3cr3t'",
    'ran with {"pin":"s3cr3t"}',
    "ran with {'credentials': s3cr3t}",
    "sent X-Api-Key: s3cr3t",
    "sent Authorization: token s3cr3t",
    "sent Cookie: a=s3cr3t; b=s3cr3t",
    "sent cookie=s3cr3t; b=s3cr3t",
    "用户密码：s3cr3t",
    'sent "{\\"jwt\\": \\"s3cr3t\\"}"',
    "ran PGPASSWORD=s3cr3t",
    "ran mysql -uroot -ps3cr3t",
    "ran ['curl', '-u', 'ann:s3cr3t']",
    "ran sync --password 's3cr3t s3cr3t'",
    "登录密码是s3cr3t",
    "his password is s3cr3t",
    "sent eyJhbGciOiJI.eyJzdWIi.s3cr3t",
    "mysql://ann:s3cr3t/s3cr3t@db",
)


def test_secret_is_not_found_and_all_else_is(subtests: pytest.Subtests) -> None:
    job_type()
    jobs(2, memo="timeout")
    for memo in MEMOS:
        Job.objects.filter(memo__contains="s3cr3t").delete()
        [pk] = jobs(1, memo=memo)
        with subtests.test(memo):
            before = memo[memo.index("s3cr3t") - 2 : memo.index("s3cr3t") + 1]
            for piece in ("s3cr3t", "S3CR", before):
                assert found(piece) == [], piece
            for piece in (memo[:4], memo[:4].upper(), redact(memo)):
                assert found(piece) == [pk], piece
            assert found(MASK) == [pk]


def test_percent_backslash_and_quotes_are_themselves() -> None:
    job_type()
    texts = ["50% of a_b", "C:\\temp\\new", 'said "no"', "it's (a) [b] $1 \\1"]
    numbers = {text: jobs(1, memo=text)[0] for text in texts}
    for text, number in numbers.items():
        assert found(text) == [number]
    assert found("5%b") == found("axb") == []


def test_nothing_that_is_masked_can_be_found_in_texts_of_any_shape() -> None:
    job_type()
    rng = random.Random(19)
    texts = [_text(rng, number) for number in range(3000)]
    rows = Job.objects.in_bulk(jobs(len(texts)))
    for row, text in zip(rows.values(), texts, strict=True):
        row.memo = text
    Job.objects.bulk_update(rows.values(), ["memo"], batch_size=200)
    shown = Job.objects.annotate(shown=Masked(F("memo"))).values_list("memo", "shown")

    assert [(memo, seen) for memo, seen in shown if seen != redact(memo)] == []
    # Many of them have one.
    assert sum(seen != memo for memo, seen in shown) > len(texts) / 5


def test_names_that_schemas_declare_are_masked_in_texts(declared_secrets: None) -> None:
    job_type()
    [pk] = jobs(1, memo="door_code=4711 refused; my_door_code=4712")
    assert found("4711") == [pk]
    schema = {"type": "object", "properties": {"doorCode": {"type": "string", "secret": True}}}
    job_type("doors", params_schema=schema)
    forget_declared()
    assert (found("4711"), found("4712"), found(f"code={MASK} refused")) == ([], [pk], [pk])


@pytest.mark.parametrize("name", ["ÄöÜ{0:04}Pin{0:04}", "ЖдЯжДя{0:04}жДяЖдЯ", "🔑🗝{0:03}🔐🔑🗝🔐"])
def test_all_that_schemas_may_declare_can_be_searched_for_and_no_more(
    name: str, declared_secrets: None, subtests: pytest.Subtests
) -> None:
    """A pattern that MariaDB finds too long would refuse each search of each person."""
    names = [name.format(number) for number in range(200)]
    most = sum(total <= MAX_LETTERS for total in accumulate(map(weight, names)))
    made = create_type(name="full", params_schema=_declaring(*names[:most]), actor="ann")
    [pk] = jobs(1, "full", memo=f"{names[0]}=4711 refused")

    assert (found("4711"), found("refused")) == ([], [pk])
    for name, door in {
        "a type": lambda schema: create_type(name="one-more", params_schema=schema, actor="ann"),
        "a template": lambda schema: put_template(name="one-more", schema=schema, actor="ann"),
        # At the end: then less is declared.
        "a change": lambda schema: update_type(
            job_type=made, changes={"params_schema": schema}, actor="ann"
        ),
    }.items():
        with subtests.test(name):
            with pytest.raises(Invalid, match=f"letters together, and {MAX_LETTERS} is the most"):
                door(_declaring("a" * 21, "b" * 21))
            with pytest.raises(Invalid, match="too long"):
                door(_declaring("a" * (MAX_NAME + 1)))
            # What is declared already costs nothing.
            door(_declaring(*names[:3]))


def _declaring(*names: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"secret": True} for name in names}}


def test_names_are_those_of_the_settings(settings: Any) -> None:
    job_type()
    [pk] = jobs(1, memo="iban=DE1234 token=abcd of https://u:pw9x@bank.example")
    settings.MASKED_KEYS = ("iban", "--")
    assert (found("DE1234"), found("abcd"), found("pw9x")) == ([], [pk], [])
    settings.MASKED_KEYS = ()
    assert (found("DE1234"), found("abcd"), found("pw9x")) == ([pk], [pk], [])


_PIECES = (
    *("token", "pass", "word", "-", "_", ".", "%", "[", "]", "=", "=", "=", "&", "?", "#", ";"),
    *("://", "@", "Bearer ", "basic\t", "key", "sig", " ", " ", "\n", "/", "'", '"', "<"),
    *("API", "Key", "client_secret", "tokens", "x", ":", "\\", "$1", "+", "~", "pwd=", "pwd="),
    *(
        '"token": "',
        "'cookie':'",
        "cookie=a; b=",
        '", "',
        "密",
        "É",
        "password",
        ": ",
        ": ",
        " = ",
        "=>",
    ),
    *("：", "口令", "mysql ", "curl ", " -p", " -u", "a:", "是", " is ", "1a2b", "--", "('"),
    *("eyJabcdefgh.", "AKIAIOSFODNN7EXAMPLE", "ghp_", "a" * 40, "hooks.slack.com/services/"),
    *("Authorization: ", "token ", "pin", "Pin", "count", "Error", "otp", "session", "{", "}", "("),
    *('\\"', '\\"jwt\\": \\"', "b'", ", ", "`", "\u3000", "\x0b", "\x1c", "\xa0", "\u212a", "ſ"),
)


def _text(rng: random.Random, number: int) -> str:
    """Pieces in any order, with values between them that occur nowhere else."""
    parts = []
    for position in range(rng.randint(4, 14)):
        parts.append(rng.choice(_PIECES))
        if rng.random() < 0.4:
            parts.append(f"v{number}q{position}v")
    return "".join(parts)


def test_pages_end_where_enough_texts_were_masked_and_go_on_there(
    admin_client: Client, api: Any, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """Masking each of the 20,000 rows of a page would take MariaDB minutes: whoever guesses secrets
    has rows that have the text and do not show it."""
    monkeypatch.setattr(search, "MAX_MASKED", 3)
    job_type()
    shown_it = jobs(1, memo="door 4711 is shut")
    secret = jobs(5, memo="password=4711 is wrong")
    jobs(9, memo="timeout")
    twice = jobs(2, memo="4711 and pin=4711")
    for query in ({"q": "4711"}, {"q": "4711", "type": "mail"}):
        with subtests.test("list", query=query):
            numbers, ends, page = [], [], {}
            while page is not None:
                answer = admin_client.get(LIST, query | page)
                numbers += shown(answer)
                older = answer.context["cl"].older
                ends += [] if older is None else [older]
                assert ("Look further back" in text_of(answer)) == (older is not None)
                page = None if older is None else {"before": str(older)}
            assert (numbers, ends) == ([*twice[::-1], *shown_it], [secret[-1], secret[1]])

    with subtests.test("REST"):
        found, pages, address = [], 0, "/api/v1/jobs/?memo=4711"
        while address:
            answer = api.get(address).json()
            found += [int(each["id"]) for each in answer["results"]]
            address, pages = answer["next"], pages + 1
        assert (found, pages) == ([*twice[::-1], *shown_it], 3)
