"""What a key may be given, and what a wrong wish is answered."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from apps.access.rules.clients import Client, ClientTerms, Rate, validated
from apps.common.errors import Invalid

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
GOOD = ClientTerms(name="Shop", scopes=["pull"], executors=[], job_types=[])


def test_rate_is_requests_in_a_window_of_seconds(subtests: pytest.Subtests) -> None:
    for text, rate in (
        ("10/s", Rate(10, 1)),
        ("600/m", Rate(600, 60)),
        ("5000/h", Rate(5000, 3600)),
        ("100000/d", Rate(100_000, 86_400)),
        ("999999999/d", Rate(999_999_999, 86_400)),
    ):
        with subtests.test(text=text):
            assert Rate.parse(text) == rate


def test_message_of_a_wrong_rate_shows_the_format(subtests: pytest.Subtests) -> None:
    for text in (
        *("", "600", "600/", "/m", "0/m", "-1/m", "6e2/m", "600/w", "600 / m", "١/m"),
        "1" * 10,
    ):
        with subtests.test(text=text):
            with pytest.raises(ValueError, match=r"is not a rate; .* for example 10/s, 600/m"):
                Rate.parse(text)


def test_checked_terms_are_trimmed_sorted_and_name_everything_once() -> None:
    terms = validated(
        ClientTerms(
            name="  Shop ",
            scopes=("read", "pull", "read"),
            executors=("uid_b", "gid_a", "uid_b"),
            job_types=("sms", "mail"),
            expires_at=NOW + timedelta(seconds=1),
            rate=" 600/m ",
        ),
        now=NOW,
    )

    assert terms == ClientTerms(
        name="Shop",
        scopes=["pull", "read"],
        executors=["gid_a", "uid_b"],
        job_types=["mail", "sms"],
        expires_at=NOW + timedelta(seconds=1),
        rate="600/m",
    )


def test_wrong_term_is_named_with_what_is_allowed(subtests: pytest.Subtests) -> None:
    for wrong, field, message in (
        ({"name": ""}, "name", "write 1 to 100 printable characters"),
        ({"name": " \t "}, "name", "write 1 to 100 printable characters"),
        ({"name": "x" * 101}, "name", "write 1 to 100 printable characters"),
        ({"name": "a\x00b"}, "name", "write 1 to 100 printable characters"),
        ({"name": "a\ud800b"}, "name", "write 1 to 100 printable characters"),
        ({"name": "a\nb"}, "name", "write 1 to 100 printable characters"),
        ({"scopes": ()}, "scopes", "at least one scope of pull, submit, hold, read, operate, m"),
        ({"scopes": ("admin",)}, "scopes", "'admin' is not allowed in scopes; a scope is one of"),
        ({"scopes": ("PULL",)}, "scopes", "'PULL' is not allowed"),
        (
            {"executors": ("alice",)},
            "executors",
            "'alice' is not allowed in executors; a person",
        ),
        ({"executors": ("uid_",)}, "executors", "'uid_' is not allowed"),
        ({"executors": ("xid_a",)}, "executors", "is written uid_…, a group gid_…"),
        ({"executors": ("uid_a b",)}, "executors", "'uid_a b' is not allowed"),
        ({"executors": ("uid_á",)}, "executors", "'uid_á' is not allowed"),
        ({"executors": ("uid_a\n",)}, "executors", "is not allowed"),
        ({"executors": ("uid_" + "a" * 125,)}, "executors", "at most 128 characters"),
        ({"executors": tuple(f"uid_{n}" for n in range(1001))}, "executors", "the limit is 1000"),
        ({"job_types": ("",)}, "job_types", "'' is not allowed in job_types; a job type has"),
        ({"job_types": ("a b",)}, "job_types", "without blanks"),
        ({"job_types": ("a" * 129,)}, "job_types", "1 to 128"),
        ({"rate": "fast"}, "rate", "'fast' is not a rate"),
        ({"expires_at": NOW}, "expires_at", "is past; choose a later time"),
        ({"expires_at": NOW - timedelta(days=1)}, "expires_at", "is past"),
        ({"expires_at": datetime(2027, 1, 1)}, "expires_at", "needs a time zone"),
    ):
        with subtests.test(wrong=wrong):
            with pytest.raises(Invalid) as caught:
                validated(replace(GOOD, **wrong), now=NOW)
            assert [error.field for error in caught.value.errors] == [field]
            assert message in caught.value.errors[0].message
            assert message in caught.value.detail


def test_term_on_the_edge_of_what_is_allowed_is_kept(subtests: pytest.Subtests) -> None:
    for right in (
        {"name": "x" * 100},
        {"name": "巡店 📷"},
        {"executors": ["uid_" + "a" * 124]},
        {"executors": ["gid_A.b-c@d_9"]},
        {"executors": [f"uid_{n:04}" for n in range(1000)]},
        {"job_types": ["a" * 128]},
        {"job_types": ["mail.v2:eu/west+x@y-z_"]},
        {"expires_at": NOW + timedelta(microseconds=1)},
    ):
        with subtests.test(right=right):
            terms = replace(GOOD, **right)
            assert validated(terms, now=NOW) == terms


def test_expiry_that_was_agreed_earlier_may_have_passed() -> None:
    agreed = replace(GOOD, expires_at=NOW - timedelta(days=1))

    assert validated(replace(agreed, name="Shops"), now=NOW, agreed=agreed).name == "Shops"
    with pytest.raises(Invalid, match="is past"):
        validated(replace(agreed, expires_at=NOW - timedelta(hours=1)), now=NOW, agreed=agreed)


def client(**changes: object) -> Client:
    return replace(
        Client(client_id="shop-k7m2xq", name="Shop", scopes=frozenset({"pull"})), **changes
    )


def test_client_is_bound_to_what_it_names(subtests: pytest.Subtests) -> None:
    for executors, job_types, bindings in (
        (set(), set(), set()),
        ({"gid_a"}, set(), {"executors"}),
        (set(), {"mail"}, {"job_types"}),
        ({"gid_a"}, {"mail"}, {"executors", "job_types"}),
    ):
        with subtests.test(executors=executors, job_types=job_types):
            bound = client(executors=frozenset(executors), job_types=frozenset(job_types))
            assert bound.bindings == bindings
