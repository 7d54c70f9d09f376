"""The format of a key, and which headers carry one."""

from __future__ import annotations

import base64
import traceback

import pytest

from apps.access.rules import keys


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def test_client_id_of_a_name_is_its_slug_and_six_random_characters(
    subtests: pytest.Subtests,
) -> None:
    for name, slug in (
        ("Shop scanners", "shop-scanners"),
        ("  Été & Co.  ", "ete-co"),
        ("巡店", "client"),
        ("---", "client"),
        ("x" * 90, "x" * 40),
        ("a" * 39 + " b", "a" * 39),
    ):
        with subtests.test(name=name):
            client_id = keys.new_client_id(name)

            assert client_id[:-7] == slug
            assert client_id[-7] == "-"
            assert len(set(client_id[-6:]) & set("0o1li")) == 0
            assert keys.is_client_id(client_id)
            assert keys.new_client_id(name) != client_id


def test_secret_has_256_random_bits_and_needs_no_quoting() -> None:
    secrets = {keys.new_secret() for _ in range(100)}

    assert len(secrets) == 100
    for secret in secrets:
        assert len(base64.urlsafe_b64decode(secret + "=")) == 32
        assert secret.replace("-", "").replace("_", "").isalnum()


def test_readable_header_gives_client_id_and_digest(subtests: pytest.Subtests) -> None:
    for header in (
        "Bearer shop-k7m2xq.s3cret_-",
        "bearer shop-k7m2xq.s3cret_-",
        "BEARER   shop-k7m2xq.s3cret_- ",
        basic("shop-k7m2xq:s3cret_-"),
        basic("shop-k7m2xq:s3cret_-").replace("Basic", "basic"),
    ):
        with subtests.test(header=header):
            credentials = keys.read_header(header)
            assert credentials.client_id == "shop-k7m2xq"
            assert credentials.digest == keys.digest_of("s3cret_-")


def test_credentials_when_shown_hide_the_digest() -> None:
    credentials = keys.read_header("Bearer shop-k7m2xq.s3cret")

    assert credentials.digest not in repr(credentials)
    assert "s3cret" not in repr(credentials)


def test_message_of_an_unreadable_header_shows_the_format(subtests: pytest.Subtests) -> None:
    for header in (
        "",
        "Bearer",
        "Bearer shop-k7m2xq",
        "Bearer shop-k7m2xq.",
        "Bearer shop-k7m2xq.s3cret.more",
        "Bearer shop-k7m2xq.s3cret\n",
        "Bearer SHOP-k7m2xq.s3cret",
        "Bearer shop-k7m2xq.s3cret, Bearer shop-k7m2xq.s3cret",
        "Bearer shop-k7m2xq.s3cret,Basic eDp5",
        "Bearer shop-k7m2xq.s3crét",
        "Bearer shop-k7m2xq.\ud800",
        "Bearer shop-k7m2xq.\x00",
        f"Bearer {'a' * 65}.s3cret",
        f"Bearer shop-k7m2xq.{'s' * 129}",
        "shop-k7m2xq.s3cret",
        "Token shop-k7m2xq.s3cret",
        "Basic shop-k7m2xq:s3cret",
        "Basic !!!!",
        "Basic /w==",
        basic("shop-k7m2xq:s3cret").replace("c2hv", "c2!hv"),
        f"{basic('shop-k7m2xq:s3cret')}, {basic('shop-k7m2xq:s3cret')}",
        basic("shop-k7m2xq.s3cret"),
        basic("shop-k7m2xq:"),
        basic("shop-k7m2xq:s3cret:more"),
    ):
        with subtests.test(header=header):
            with pytest.raises(
                ValueError, match=r"not readable; send it once, as 'Authorization: Bearer"
            ):
                keys.read_header(header)


def test_header_of_512_characters_is_read_and_one_more_is_not() -> None:
    start = "Bearer" + " " * (512 - len("Bearer") - len("a.b")) + "a.b"
    assert len(start) == 512
    assert keys.read_header(start).client_id == "a"

    with pytest.raises(ValueError, match="not readable"):
        keys.read_header(start.replace("Bearer", "Bearer "))


@pytest.mark.parametrize("header", [basic("shop-k7m2xq s3cret"), "Basic s3cret!", "Token s3cret"])
def test_unreadable_header_leaves_its_text_out_of_the_error(header: str) -> None:
    with pytest.raises(ValueError, match="not readable") as caught:
        keys.read_header(header)

    shown = "".join(traceback.format_exception(caught.value))
    assert "s3cret" not in shown
    assert header.partition(" ")[2] not in shown
    assert caught.value.__cause__ is None
