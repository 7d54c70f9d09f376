"""What counts as a secret, in JSON and in texts."""

from __future__ import annotations

import time

import pytest
from django.test import override_settings

from apps.common.masking import MASK, redacted, unredacted


def test_value_under_a_secret_key_is_redacted_however_it_is_spelled(
    subtests: pytest.Subtests,
) -> None:
    for key in """
        password Password my_password db.password pwd ADMIN_PWD API_KEY api-key apiKey APIKey
        x-api-key X-Api-Key Authorization Proxy-Authorization token access_token refreshToken
        X-Auth-Token client_secret clientSecret private_key Set-Cookie
    """.split():
        with subtests.test(key=key):
            assert redacted({"a": [{key: {"deep": "x"}}]}) == {"a": [{key: MASK}]}


def test_other_keys_are_shown(subtests: pytest.Subtests) -> None:
    for key in ("tokens", "pass", "key", "keyboard", "secretary", "author", ""):
        with subtests.test(key=key):
            assert redacted({key: "x"}) == {key: "x"}


def test_operators_of_the_platform_name_the_secret_keys() -> None:
    with override_settings(MASKED_KEYS=("iban",)):
        assert redacted({"IBAN": 1, "password": 2}) == {"IBAN": MASK, "password": 2}


def test_secrets_in_texts_are_redacted(subtests: pytest.Subtests) -> None:
    for text, shown in (
        ("https://ann:s3cret@shop.example/a", f"https://{MASK}@shop.example/a"),
        ("https://s3cret@shop.example/a", f"https://{MASK}@shop.example/a"),
        ("mysql://u:p%40ss@db/x failed", f"mysql://{MASK}@db/x failed"),
        ("mysql://u:p@ss@db/x failed", f"mysql://{MASK}@db/x failed"),
        ("https://x/send?access_token=abc&n=1", f"https://x/send?access_token={MASK}&n=1"),
        ("https://x/send?n=1&key=abc#top", f"https://x/send?n=1&key={MASK}#top"),
        ("/hook?n=1&sig=a%2Fb%3D", f"/hook?n=1&sig={MASK}"),
        ("https://x/#id_token=abc", f"https://x/#id_token={MASK}"),
        ("login failed: pwd=abc user=ann", f"login failed: pwd={MASK} user=ann"),
        ("sent 'Authorization: Bearer abcdefgh.ijk'", f"sent 'Authorization: Bearer {MASK}'"),
        ("url=https://ann:s3cret@shop.example/a", f"url=https://{MASK}@shop.example/a"),
        ("next=/a?token=abc&n=1", f"next=/a?token={MASK}&n=1"),
        ("header=Bearer abcdefgh", f"header=Bearer {MASK}"),
        ("authorization=Bearer abcdefgh ok", f"authorization={MASK} ok"),
        ("Basic\tYW5uOnMzY3JldA==", f"Basic\t{MASK}"),
        ('400: {"token":"a\'b\\"c","n":1}', f'400: {{"token":"{MASK}","n":1}}'),
        ("{'api_key' : 'abc', 'n': 'a'}", f"{{'api_key' : '{MASK}', 'n': 'a'}}"),
        ('{"token": 5, "secret": ""}', '{"token": 5, "secret": ""}'),
        ("token: expired", "token: expired"),
        ("key=order-1 stays", "key=order-1 stays"),
        ("https://shop.example/a?page=2", "https://shop.example/a?page=2"),
        ("mail ann@shop.example", "mail ann@shop.example"),
        ("basic needs", "basic needs"),
    ):
        with subtests.test(text=text):
            assert redacted(text) == shown
            assert redacted({"list": [text]}) == {"list": [shown]}
            assert redacted(shown) == shown


def test_long_texts_are_read_once_from_begin_to_end() -> None:
    """Each would take many seconds if what follows a name were read anew for each name in it."""
    began = time.thread_time()
    for piece in ("a=", "token=", '"a":"', "Bearer ", "://a@", "'token':'", "%", "\\"):
        # Without a sign of a secret none is looked for.
        assert len(redacted(piece * 60_000 + " =")) <= 60_001 * (len(piece) + len(MASK))
    assert time.thread_time() - began < 4


def test_mask_that_was_left_standing_gives_the_stored_secret_back() -> None:
    stored = {"token": "t", "list": [{"token": "u"}], "x": {"token": "v"}}
    edited = {"token": MASK, "list": [{"token": MASK}, {"token": MASK}], "x": {"token": "new"}}
    assert unredacted(edited, stored) == {
        "token": "t",
        "list": [{"token": "u"}, {"token": MASK}],
        "x": {"token": "new"},
    }


def test_masks_within_a_text_give_its_secrets_back(subtests: pytest.Subtests) -> None:
    for edited, saved in (
        (f"https://{MASK}@a.example/?token={MASK}", "https://u:p@a.example/?token=t"),
        (f"https://{MASK}@b.example/?n=1&token={MASK}", "https://u:p@b.example/?n=1&token=t"),
        # Which of the two is it? It stays as it was written.
        (f"https://a.example/?token={MASK}", f"https://a.example/?token={MASK}"),
        ("https://a.example/", "https://a.example/"),
    ):
        with subtests.test(edited=edited):
            assert unredacted({"url": edited}, {"url": "https://u:p@a.example/?token=t"}) == {
                "url": saved
            }
