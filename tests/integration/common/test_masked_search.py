"""Searching texts finds what pages show of them, and no secret, on both databases."""

from __future__ import annotations

import random
from typing import Any

import pytest
from django.db.models import F

from apps.common.masked_search import Masked, says
from apps.common.masking import MASK, redacted
from apps.jobs.models import Job
from tests.jobs import job_type, jobs

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def found(text: str) -> list[int]:
    return list(Job.objects.filter(says("memo", text)).order_by("pk").values_list("pk", flat=True))


def test_secret_is_not_found_and_all_else_is(subtests: pytest.Subtests) -> None:
    job_type()
    jobs(2, memo="timeout")
    for memo in [
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
    ]:
        with subtests.test(memo=memo):
            [pk] = jobs(1, memo=memo)
            secret = memo.index("s3cr3t")
            for piece in ("s3cr3t", "S3CR", memo[secret - 2 : secret + 1]):
                assert found(piece) == [], piece
            for piece in (memo[:4], memo[:4].upper(), redacted(memo), MASK):
                assert found(piece) == [pk], piece
            Job.objects.filter(pk=pk).delete()


def jobs_of(texts: list[str]) -> None:
    numbered = zip(jobs(len(texts)), texts, strict=True)
    Job.objects.bulk_update([Job(pk=pk, memo=text) for pk, text in numbered], ["memo"], 100)


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
    jobs_of(texts)
    shown = Job.objects.annotate(shown=Masked(F("memo"))).values_list("memo", "shown")

    leaks = [(memo, seen) for memo, seen in shown if _values(seen) - _values(redacted(memo))]
    assert leaks == []
    # What is masked without need is little.
    lost = sum(_values(redacted(memo)) > _values(seen) for memo, seen in shown)
    assert lost < len(texts) / 5


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
    *("密", "É"),
    *("API", "Key", "client_secret", "tokens", "x", ":", "\\", "$1", "+", "~", "pwd=", "pwd="),
    *('"token": "', "'cookie':'", '", "'),
)


def _text(rng: random.Random, number: int) -> str:
    """Pieces in any order, with values between them that occur nowhere else."""
    parts = []
    for position in range(rng.randint(4, 14)):
        parts.append(rng.choice(_PIECES))
        if rng.random() < 0.4:
            parts.append(f"v{number}q{position}v")
    return "".join(parts)


def _values(text: Any) -> set[str]:
    return {part for part in str(text).replace("v", " v ").split() if "q" in part}
