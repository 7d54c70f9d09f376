"""Mistakes of several steps, told at once."""

from __future__ import annotations

import pytest

from apps.common.errors import Conflict, FieldError, Invalid, Mistakes, PlatformError, TooDeep


def told(*errors: PlatformError) -> PlatformError | None:
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

    assert told(error) is error
    assert told() is None


def test_several_are_one_refusal_with_all_in_order() -> None:
    found = told(Invalid.field("title", "No title."), Invalid("All wrong."), TooDeep("deep"))

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

    found = told(first, later)

    assert found is not None
    assert [error.message for error in found.errors] == ["one", "two", "mode"]


def test_what_is_no_mistake_of_the_input_is_raised_at_once() -> None:
    mistakes = Mistakes()
    with pytest.raises(Conflict), mistakes:
        raise Conflict("Somebody else was first.")
    with pytest.raises(KeyError), mistakes:
        raise KeyError("a bug")
    assert not mistakes
