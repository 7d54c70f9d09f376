"""Edits of what is masked: a mask stands for the stored secret at its own place alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.common.errors import Invalid
from apps.common.json_rules import canonical
from apps.common.masking import MASK, merge, redact
from tests import masks

# --- Edits ----------------------------------------------------------------------------------------
STORED: dict[str, Any] = {
    "token": "t",
    "note": "token=n and more",
    "list": [{"url": "a", "token": "A"}, {"url": "b", "token": "B"}],
    "args": ["--token=c", "-v"],
    "run": ["sync", "--token", "c", "-v"],
    "deep": {"credentials": {"user": "u"}, "name": "North"},
    "pin": 1234,
    "url=https://u:k@x": 1,
}
SHOWN_OF_STORED: dict[str, Any] = {
    "token": MASK,
    "note": f"token={MASK} and more",
    "list": [{"url": "a", "token": MASK}, {"url": "b", "token": MASK}],
    "args": [f"--token={MASK}", "-v"],
    "run": ["sync", "--token", MASK, "-v"],
    "deep": {"credentials": MASK, "name": "North"},
    "pin": MASK,
    f"url=https://{MASK}@x": 1,
}
KEPT: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({}, {}),
    ({"more": 1}, {"more": 1}),
    ({"token": "new"}, {"token": "new"}),
    ({"note": "new"}, {"note": "new"}),
    ({"deep": {"credentials": MASK, "name": "South", "new": 1}},
     {"deep": {"credentials": {"user": "u"}, "name": "South", "new": 1}}),
    ({"list": [SHOWN_OF_STORED["list"][0], {"url": "c"}]},
     {"list": [STORED["list"][0], {"url": "c"}]}),
    ({"args": [f"--token={MASK}", "-q"]}, {"args": ["--token=c", "-q"]}),
    ({"args": ["-q"]}, {"args": ["-q"]}),
    ({"run": ["send", "--token", MASK, "-q"]}, {"run": ["send", "--token", "c", "-q"]}),
    ({"run": ["send", "--note", "c", "-v"]}, {"run": ["send", "--note", "c", "-v"]}),
)  # fmt: skip

# The edit, and where a mask is left over.
LEFT: tuple[tuple[dict[str, Any], list[str]], ...] = (
    ({"note": f"x {MASK}"}, ["note"]),
    ({"note": MASK}, ["note"]),
    ({"note": f"token={MASK} and less"}, ["note"]),
    ({"other": MASK}, ["other"]),
    ({"deep": {"token": MASK}}, ["deep.token"]),
    ({"deep": {"credentials": {"user": MASK}}}, ["deep.credentials.user"]),
    ({"deep": f"token={MASK} and more"}, ["deep"]),
    ({"list": SHOWN_OF_STORED["list"][1:]}, ["list[0].token"]),
    ({"list": SHOWN_OF_STORED["list"][::-1]}, ["list[0].token", "list[1].token"]),
    ({"list": [{"url": "evil", "token": MASK}, SHOWN_OF_STORED["list"][1]]}, ["list[0].token"]),
    ({"list": [*SHOWN_OF_STORED["list"], {"token": MASK}]},
     ["list[0].token", "list[1].token", "list[2].token"]),
    ({"args": [MASK, "-v"]}, ["args[0]"]),
    ({"args": ["-v", f"--token={MASK}"]}, ["args[1]"]),
    # The secret would be shown behind an option that has none.
    ({"run": ["sync", "--note", MASK, "-v"]}, ["run[2]"]),
    ({"new": [[{"a": MASK}]]}, ["new[0][0].a"]),
    ({f"other={MASK}": 1}, [f"other={MASK}"]),
)  # fmt: skip


def test_mask_stands_for_the_stored_secret_at_its_own_place_alone(
    subtests: pytest.Subtests,
) -> None:
    assert redact(STORED) == SHOWN_OF_STORED
    for edit, merged in KEPT:
        with subtests.test(str(edit)):
            assert merge({**SHOWN_OF_STORED, **edit}, STORED) == {**STORED, **merged}
    for edit, places in LEFT:
        with subtests.test(str(edit)):
            with pytest.raises(Invalid) as caught:
                merge({**SHOWN_OF_STORED, **edit}, STORED, field="params")
            assert [error.field for error in caught.value.errors] == [f"params.{p}" for p in places]
            assert all(MASK in error.message for error in caught.value.errors)
            assert f"params.{places[0]}: " in str(caught.value)


# What is stored beside the secret, the edit of it, and whether the secret would go elsewhere.
ADDRESSES: tuple[tuple[Any, Any, bool], ...] = (
    ("https://shop.example/in?n=1", "https://shop.example/out", False),
    ("https://shop.example/in", "HTTPS://Shop.Example", False),
    ("https://shop.example/in", "no address", False),
    (["redis://a:1/0", "https://b/"], ["https://b/", "redis://a:1/1"], False),
    ("https://shop.example/in", "https://evil.example/in", True),
    ("https://shop.example/in", "http://shop.example/in", True),
    ("https://shop.example/in", "https://shop.example:8443/in", True),
    ("https://shop.example/in", "https://shop.example@evil.example/in", True),
    ("https://shop.example/in", {"proxy": "see https://evil.example"}, True),
    ("https://shop.example/in", {"socks5://evil.example": 1}, True),
    (None, "https://evil.example", True),
)


def test_no_edit_sends_a_secret_to_another_host(subtests: pytest.Subtests) -> None:
    for stored, edited, is_elsewhere in ADDRESSES:
        with subtests.test(f"{stored} {edited}"):
            before = {"to": stored, "headers": {"X-Api-Key": "k", "n": 1}, "note": "pin=1 a"}
            after = {**redact(before), "to": edited}
            if not is_elsewhere:
                assert merge(after, before) == {**before, "to": edited}
                continue
            with pytest.raises(Invalid) as caught:
                merge(after, before, field="context")
            errors = caught.value.errors
            assert [e.field for e in errors] == ["context.headers.X-Api-Key", "context.note"]
            assert all("was not there before" in error.message for error in errors)
            secrets = {"headers": {"X-Api-Key": "k2", "n": 1}, "note": "pin=2"}
            assert merge({**after, **secrets}, before) == {**after, **secrets}


def test_masks_of_a_new_value_are_refused() -> None:
    with pytest.raises(Invalid, match=r"params\.a\.token: "):
        merge({"a": {"token": MASK}}, None, field="params")
    assert merge({"a": {"token": "x"}}, None) == {"a": {"token": "x"}}


def test_refusal_of_many_masks_names_the_first_places(subtests: pytest.Subtests) -> None:
    """A page or answer that named all of a long value would take seconds and megabytes."""
    for value in ([MASK] * 5000, {f"k{n}": MASK for n in range(900)}, [[[f"x {MASK}"]] * 5000]):
        with subtests.test(str(value)[:20]), pytest.raises(Invalid) as refused:
            merge({"t": value}, {"t": value[:-1] if isinstance(value, list) else {}})
        assert len(refused.value.errors) == 20


def test_mask_that_is_stored_itself_may_stay() -> None:
    stored = {"note": MASK, "token": MASK, "list": [MASK, "token=x"]}
    assert merge(redact(stored), stored) == stored


def test_keys_that_look_alike_when_masked_are_told_apart() -> None:
    stored = {"token=a": 1, "token=b": 2}
    shown = redact(stored)
    assert len(shown) == 2
    assert merge(shown, stored) == stored


def test_no_edit_asks_whether_a_masked_key_is_the_one_beside_it() -> None:
    stored, shown = {"token=a": 1}, {f"token={MASK}": 1}
    for guess in ("token=a", "token=b"):
        with pytest.raises(Invalid) as caught:
            merge({**shown, guess: 2}, stored)
        assert [error.field for error in caught.value.errors] == [f"token={MASK}"]


@given(stored=masks.values, data=st.data())
def test_no_edit_moves_a_secret(stored: dict[str, Any], data: st.DataObject) -> None:
    shown = redact(stored)
    assert not masks.has_secret(shown)
    assert canonical(merge(shown, stored)) == canonical(stored)
    edited = data.draw(masks.edits(shown))
    try:
        merged = merge(edited, stored)
    except Invalid as error:
        assert all(MASK in each.message for each in error.errors)
        assert MASK in canonical(edited)
        return
    masks.require_in_place(merged, stored)
    assert not masks.has_secret(redact(merged))
