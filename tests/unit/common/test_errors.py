"""Mistakes of several steps are raised at once; errors of DRF and Django become a flat list."""

from __future__ import annotations

import pytest
from django.utils import translation
from rest_framework.exceptions import ErrorDetail

from apps.common.admin.display import translate
from apps.common.errors import (
    Conflict,
    FieldError,
    Invalid,
    Mistakes,
    PlatformError,
    TooDeep,
    field_errors,
    refusal,
)
from apps.common.messages import Message as _


def raised_from(*errors: PlatformError) -> PlatformError | None:
    mistakes = Mistakes()
    for error in errors:
        with mistakes:
            raise error
    try:
        mistakes.raise_all()
    except PlatformError as error:
        return error
    return None


def test_one_mistake_is_raised_as_it_was() -> None:
    error = TooDeep("deep")

    assert raised_from(error) is error
    assert raised_from() is None


def test_several_are_one_refusal_with_all_in_order() -> None:
    found = raised_from(Invalid.field("title", "No title."), Invalid("All wrong."), TooDeep("deep"))

    assert isinstance(found, Invalid)
    assert (found.detail, [(e.field, e.code, e.message) for e in found.errors]) == (
        "No title.",
        [
            ("title", "invalid", "No title."),
            ("", "invalid", "All wrong."),
            ("", "too_deep", "deep"),
        ],
    )


def test_later_steps_say_nothing_more_of_a_field_that_was_refused() -> None:
    first = Invalid("1", errors=[FieldError("rule.at", "invalid", m) for m in ("one", "two")])
    later = Invalid("2", errors=[FieldError(f, "invalid", f) for f in ("rule", "rule[3]", "mode")])

    found = raised_from(first, later)

    assert found is not None
    assert [error.message for error in found.errors] == ["one", "two", "mode"]


def test_what_is_no_mistake_of_the_input_is_raised_at_once() -> None:
    mistakes = Mistakes()
    with pytest.raises(Conflict), mistakes:
        raise Conflict("Somebody else was first.")
    with pytest.raises(KeyError), mistakes:
        raise KeyError("a bug")
    assert not mistakes


def test_nested_detail_becomes_a_flat_list_of_paths_with_known_codes() -> None:
    detail = {
        "jobs": {3: {"type": [ErrorDetail("Unknown.", code="does_not_exist")]}},
        "list": [{}, {"a": [ErrorDetail("Bad.", code="bad_text")]}],
        "non_field_errors": [ErrorDetail("Together wrong.", code="limit_reached")],
        "__all__": ["Plain."],
    }

    assert field_errors(detail) == [
        FieldError("jobs[3].type", "invalid", "Unknown."),
        FieldError("list[1].a", "bad_text", "Bad."),
        FieldError("", "limit_reached", "Together wrong."),
        FieldError("", "invalid", "Plain."),
    ]


def test_errors_that_share_a_code_give_it_to_the_whole() -> None:
    shared = [FieldError("a", "too_large", "Large."), FieldError("b", "too_large", "Large.")]
    mixed = [FieldError("a", "too_large", "Large."), FieldError("b", "bad_text", "Bad.")]

    assert (refusal(shared).code, refusal(shared).status) == ("too_large", 413)
    assert (refusal(mixed).code, refusal(mixed).status) == ("invalid", 400)
    assert refusal([FieldError("a", "not_found", "Gone.")]).code == "invalid"


def test_refusal_of_many_can_be_read_in_another_language() -> None:
    found = refusal([FieldError(f, "invalid", _("{at} needs a time zone.", at=f)) for f in "abcd"])

    assert found.detail == (
        "a: a needs a time zone; b: b needs a time zone; c: c needs a time zone; 1 more."
    )
    with translation.override("zh-hans"):
        words = translate(found.detail)
    assert "c 缺少时区；" in words and words.endswith("另有 1 处。")
