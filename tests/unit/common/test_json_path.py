"""Paths into payloads as people write them, and what is said of those that cannot be read."""

from __future__ import annotations

import pytest

from apps.common.json.path import Condition, read, split_conditions

COLUMNS = ("context", "result")


def test_condition_has_column_path_and_value(subtests: pytest.Subtests) -> None:
    for text, column, path, value, sql in (
        ("context.city:北京", "context", ("city",), "北京", '$."city"'),
        ("result.order.city:x", "result", ("order", "city"), "x", '$."order"."city"'),
        (
            *("context.items[0].sku:S7", "context", ("items", 0, "sku")),
            *("S7", '$."items"[0]."sku"'),
        ),
        ("context[12][0]:x", "context", (12, 0), "x", "$[12][0]"),
        (
            "context.2026.a__b.c-d:x",
            "context",
            ("2026", "a__b", "c-d"),
            "x",
            '$."2026"."a__b"."c-d"',
        ),
        ("context.at:10:30", "context", ("at",), "10:30", '$."at"'),
        ("context.note: a b ", "context", ("note",), " a b ", '$."note"'),
        ("context.note:", "context", ("note",), "", '$."note"'),
        ("context.note:\"$%s'\\", "context", ("note",), "\"$%s'\\", '$."note"'),
        ("context.城市.x:y", "context", ("城市", "x"), "y", '$."城市"."x"'),
        ('context."first name".a:b', "context", ("first name", "a"), "b", '$."first name"."a"'),
        ('context."a.b:[0]":c', "context", ("a.b:[0]",), "c", '$."a.b:[0]"'),
        ("context" + ".a" * 8 + ":x", "context", ("a",) * 8, "x", "$" + '."a"' * 8),
    ):
        with subtests.test(text=text):
            found = read(text, COLUMNS)
            assert found == Condition(column, path, value)
            assert (str(found), found.in_sql()) == (text, sql)


NO_SEARCH = (
    "{} is no search in a payload; write a path, a colon and the value, for example "
    "context.order.city:北京. A path begins with: context, result."
)


def test_what_is_no_path_and_value_is_shown_an_example(subtests: pytest.Subtests) -> None:
    for text in (
        *("", ":", ":x", "context", "context:x", "context.city", "city:x", "params.city:x"),
        *("Context.city:x", " context.city:x", ".context.city:x", "context city:x", "context.a:\0"),
    ):
        with subtests.test(text=text):
            with pytest.raises(ValueError) as refused:
                read(text, COLUMNS)
            assert refused.value.args[0] == NO_SEARCH.format(text)


def test_what_is_no_text_is_no_condition(subtests: pytest.Subtests) -> None:
    for value in (None, 7, ["context.a:x"], {"context.a": "x"}):
        with subtests.test(value=value):
            with pytest.raises(ValueError, match="is no search in a payload"):
                read(value, COLUMNS)


def test_part_that_no_path_has_is_named(subtests: pytest.Subtests) -> None:
    for name, part in (
        ("context..city", "."),
        ("context.", "."),
        ("context.ci ty", ".ci ty"),
        ('context.""', '.""'),
        ('context."a\\b"', '."a\\b"'),
        ('context."a', '."a'),
        ('context.a"b', '.a"b'),
        ("context.a*", ".a*"),
        ("context[*]", "[*]"),
        ("context[-1]", "[-1]"),
        ("context[]", "[]"),
        ("context[0", "[0"),
        ("context[0]x", "[0]x"),
        ("context[1234567]", "[1234567]"),
        ("context[٣]", "[٣]"),
        ("context." + "a" * 65, "." + "a" * 65),
    ):
        with subtests.test(name=name):
            with pytest.raises(ValueError) as refused:
                read(f"{name}:x", COLUMNS)
            assert refused.value.args[0].startswith(
                f"{part} cannot be searched for; parts of a path are"
            )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("context" + ".a" * 9 + ":x", "has more than 8 parts"),
        ("context.a:" + "x" * 201, "write at most 200 letters"),
    ],
)
def test_long_ones_are_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read(text, COLUMNS)


def test_longest_key_and_value_are_read() -> None:
    key, value = "k" * 64, "v" * 200
    assert read(f"context.{key}:{value}", COLUMNS) == Condition("context", (key,), value)


def test_typed_conditions_are_parted_at_the_paths(subtests: pytest.Subtests) -> None:
    for text, parts in (
        ("context.a:1", ["context.a:1"]),
        (" context.a: 1 \t result.b[0]:x  y ", ["context.a:1", "result.b[0]:x  y"]),
        ("context.a:see context.b", ["context.a:see context.b"]),
        ("context.a:x context.b:y result.c:z", ["context.a:x", "context.b:y", "result.c:z"]),
        ("context.a:x params.b:y", ["context.a:x params.b:y"]),
        ("context.a：1 result.b：x：y", ["context.a:1", "result.b:x：y"]),
        ('context."a b".城：x result.c:z', ['context."a b".城:x', "result.c:z"]),
        ("rubbish", ["rubbish"]),
        ("", [""]),
    ):
        with subtests.test(text=text):
            assert split_conditions(text, COLUMNS) == parts
