"""Strict fields: the right type or a refusal that names the field and what to do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.http import QueryDict
from hypothesis import given
from hypothesis import strategies as st

from apps.common.api.serializer_fields import (
    MAX_NAMED,
    Boolean,
    Choice,
    DecimalId,
    Instant,
    Integer,
    Items,
    JsonObject,
    Name,
    Names,
    Text,
)
from apps.common.api.serializers import StrictSerializer
from apps.common.errors import Invalid, PlatformError
from apps.common.messages import wire_time


class Inner(StrictSerializer):
    kind = Choice(choices=["a", "b"])


class Body(StrictSerializer):
    uid = Name(max_length=20)
    title = Text(max_length=5, required=False)
    memo = Text(max_length=5, required=False, allow_blank=True)
    count = Integer(min_value=-1, max_value=1000, default=3)
    on = Boolean(required=False)
    mode = Choice(choices=[("single", "Single"), ("multi", "Multi")], required=False)
    at = Instant(required=False, allow_null=True)
    params = JsonObject(required=False)
    members = Names(max_items=3, required=False)
    number = DecimalId(required=False)
    inner = Inner(required=False)
    items = Inner(many=True, required=False)
    id = Integer(min_value=1, max_value=9, read_only=True)


def errors_of(**data: Any) -> tuple[PlatformError, list[tuple[str, str]]]:
    with pytest.raises(PlatformError) as caught:
        Body.check({"uid": "uid_a", **data})
    return caught.value, [(e.field, e.code) for e in caught.value.errors]


def test_value_of_the_right_type_is_kept_as_it_is(subtests: pytest.Subtests) -> None:
    for field, value, checked in (
        ("title", " a b ", " a b "),
        ("title", "巡店巡店巡", "巡店巡店巡"),
        ("memo", "", ""),
        ("count", -1, -1),
        ("count", 1000, 1000),
        ("on", False, False),
        ("mode", "multi", "multi"),
        ("at", None, None),
        ("params", {"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
        ("members", ["uid_a", "gid.b:@/+-"], ["uid_a", "gid.b:@/+-"]),
        ("members", [], []),
        ("number", "9223372036854775807", 2**63 - 1),
        ("number", "0", 0),
        ("inner", {"kind": "a"}, {"kind": "a"}),
        ("items", [{"kind": "a"}, {"kind": "b"}], [{"kind": "a"}, {"kind": "b"}]),
    ):
        with subtests.test(field=field, value=value):
            read = Body.check({"uid": "uid_a", field: value})[field]
            assert read == checked
            assert type(read) is type(checked)


def test_value_of_another_type_or_out_of_range_is_refused_by_its_field(
    subtests: pytest.Subtests,
) -> None:
    for field, value, code, message in (
        ("uid", 17, "invalid", "17 is not a string"),
        ("uid", None, "invalid", "null is not taken"),
        ("uid", "uid a", "invalid", '"uid a" is no name'),
        ("uid", "uid_a\n", "invalid", "is no name"),
        ("uid", "", "invalid", "blank"),
        ("uid", "u" * 21, "invalid", "21 characters; at most 20"),
        ("title", True, "invalid", "true is not a string"),
        ("title", "  ", "invalid", "blank"),
        ("title", "abcdef", "invalid", "6 characters; at most 5"),
        ("title", "a\0", "bad_text", "NUL"),
        ("title", "\ud800", "bad_text", "surrogates"),
        ("count", 5.0, "invalid", "5.0 is not an integer; write one from -1 to 1000"),
        ("count", "٥", "invalid", "is not an integer"),
        ("count", True, "invalid", "true is not an integer"),
        ("count", None, "invalid", "null"),
        ("count", -2, "invalid", "-2 is too small; write -1 or more"),
        ("count", 1001, "invalid", "1001 is too large; write 1000 or less"),
        ("count", 10**30, "invalid", "too large"),
        ("on", 1, "invalid", "1 is not a boolean"),
        ("on", "true", "invalid", '"true" is not a boolean'),
        ("mode", "Single", "invalid", '"Single" is none of: single, multi'),
        ("mode", 0, "invalid", "0 is none of"),
        ("mode", "a\u202e\ud800", "invalid", r'"a\u202e\ud800" is none of: single, multi'),
        ("at", 1700000000, "invalid", "not a time with offset"),
        ("at", "2026-11-20T09:30:00", "invalid", "not a time with offset"),
        ("at", "2026-11-20 09:30:00Z", "invalid", "not a time with offset"),
        ("at", "２026-11-20T09:30:00Z", "invalid", "not a time with offset"),
        ("at", "2026-11-20T09:30:60Z", "invalid", "no moment that exists"),
        ("at", "2026-02-29T09:30:00Z", "invalid", "no moment that exists"),
        ("at", "2026-11-20T09:30:00+24:00", "invalid", "no moment that exists"),
        ("at", "0001-01-01T00:00:00+01:00", "invalid", "no moment that exists"),
        ("at", "9999-12-31T23:59:59-00:01", "invalid", "no moment that exists"),
        ("at", "1970-01-01T00:59:59+01:00", "invalid", "before 1970"),
        ("params", [], "invalid", "The list is not a JSON object"),
        ("params", "{}", "invalid", "is not a JSON object"),
        ("params", {"a": "\0"}, "bad_text", "NUL"),
        ("members", "uid_a", "invalid", "is not a list"),
        ("members", ["a", "b", "c", "d"], "invalid", "More than 3 names"),
        ("members", ["a", "b", "a"], "invalid", '"a" occurs twice'),
        ("number", 12, "invalid", "12 is not an id"),
        ("number", "9223372036854775808", "invalid", "is not an id"),
        ("number", "١٢", "invalid", "is not an id"),
        ("number", "", "invalid", "is not an id"),
        ("inner", [], "invalid", "[] is not a JSON object"),
    ):
        with subtests.test(field=field, value=value):
            error, wrong = errors_of(**{field: value})
            assert wrong == [(field, code)]
            assert message in error.errors[0].message
            assert error.detail == f"{field}: {error.errors[0].message}"
            assert (error.status, error.code) == (400, code)


def test_wrong_value_is_quoted_shortly_and_in_ascii() -> None:
    error, _ = errors_of(mode="\x1b[31m" + "x" * 500)

    assert error.errors[0].message.startswith('"\\u001b[31mxxx')
    assert len(error.errors[0].message) < 100


def test_path_names_members_of_objects_and_positions_in_lists() -> None:
    _, wrong = errors_of(
        inner={"kind": "c"}, items=[{"kind": "a"}, {}, 7], members=["ok", "not ok"]
    )

    assert sorted(wrong) == [
        ("inner.kind", "invalid"),
        ("items[1].kind", "invalid"),
        ("items[2]", "invalid"),
        ("members[1]", "invalid"),
    ]


def test_missing_field_is_named_and_a_default_filled_in() -> None:
    with pytest.raises(Invalid, match="uid: This field is missing"):
        Body.check({})

    assert Body.check({"uid": "uid_a"}) == {"uid": "uid_a", "count": 3}


def test_partial_check_keeps_only_what_was_given() -> None:
    assert Body.check({"on": True}, partial=True) == {"on": True}
    assert Body.check({}, partial=True) == {}
    assert Body.check({"uid": "uid_a"})["count"] == 3


def test_unknown_field_alone_gives_its_own_code_and_the_nearest_name() -> None:
    error, wrong = errors_of(modes="single")

    assert error.code == "unknown_field"
    assert wrong == [("modes", "unknown_field")]
    assert "did you mean 'mode'?" in error.detail


def test_unknown_and_wrong_fields_are_all_reported_at_once() -> None:
    error, wrong = errors_of(modes="single", count="3", title=3, on=3)

    assert error.code == "invalid"
    assert sorted(wrong) == [
        ("count", "invalid"),
        ("modes", "unknown_field"),
        ("on", "invalid"),
        ("title", "invalid"),
    ]
    assert error.detail.endswith("1 more.")


def test_only_so_many_errors_are_looked_for() -> None:
    """A body may be wrong in each of its parts, and each error costs more than the part."""

    class Many(StrictSerializer):
        items = Items(child=Inner(), max_items=5_000)
        names = Names(max_items=5_000, required=False)

    for data in (
        {f"field{n}": 1 for n in range(1_000)},
        {"items": [{"kind": "c"}] * 1_000},
        {"items": [{"kind": "a", **{f"field{n}": 1 for n in range(90)}}] * 1_000},
        {"items": [{"kind": "a"}], "names": ["a b"] * 1_000},
    ):
        with pytest.raises(PlatformError) as caught:
            Many.check(data)
        assert MAX_NAMED <= len(caught.value.errors) < 2 * MAX_NAMED


def test_field_that_the_server_sets_is_refused() -> None:
    error, wrong = errors_of(id=4)

    assert wrong == [("id", "unknown_field")]
    assert "the server sets it" in error.detail


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_any_value_in_any_field_is_checked_or_refused(value: Any) -> None:
    for field in Body().fields:
        try:
            Body.check({"uid": "uid_a", field: value})
        except PlatformError as error:
            assert error.status in (400, 413)
            assert all(e.field.startswith(field) for e in error.errors)


# --- times ------------------------------------------------------------------------------------
def test_rfc_3339_time_with_offset_becomes_an_instant_in_utc(subtests: pytest.Subtests) -> None:
    for text, at in (
        ("2026-11-20T09:30:00Z", datetime(2026, 11, 20, 9, 30, tzinfo=UTC)),
        ("2026-11-20t09:30:00z", datetime(2026, 11, 20, 9, 30, tzinfo=UTC)),
        ("2026-11-20T17:30:00+08:00", datetime(2026, 11, 20, 9, 30, tzinfo=UTC)),
        ("2026-11-20T09:30:00-00:00", datetime(2026, 11, 20, 9, 30, tzinfo=UTC)),
        ("2026-11-20T09:30:00.5Z", datetime(2026, 11, 20, 9, 30, 0, 500_000, UTC)),
        ("2026-11-20T09:30:00.123456789Z", datetime(2026, 11, 20, 9, 30, 0, 123_456, UTC)),
        ("1970-01-01T00:00:00Z", datetime(1970, 1, 1, tzinfo=UTC)),
        ("9999-12-31T23:59:59.999999Z", datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)),
    ):
        with subtests.test(text=text):
            read = Body.check({"uid": "uid_a", "at": text})["at"]
            assert read == at
            assert read.tzinfo is UTC


def test_instant_goes_out_in_utc_with_z(subtests: pytest.Subtests) -> None:
    for at, text in (
        (datetime(2026, 11, 20, 9, 30, tzinfo=UTC), "2026-11-20T09:30:00Z"),
        (datetime(2026, 11, 20, 9, 30, 0, 1500, UTC), "2026-11-20T09:30:00.001500Z"),
        (
            datetime(2026, 11, 20, 17, 30, tzinfo=timezone(timedelta(hours=8))),
            "2026-11-20T09:30:00Z",
        ),
    ):
        with subtests.test(at=at):
            assert wire_time(at) == text


@given(st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30), timezones=st.timezones()))
def test_instant_comes_back_from_the_wire_equal(at: datetime) -> None:
    """I18: times round-trip."""
    # In UTC, because Python holds a local time inside a gap for equal to no other.
    assert Body.check({"uid": "uid_a", "at": wire_time(at)})["at"] == at.astimezone(UTC)


# --- query parameters -----------------------------------------------------------------------
class Query(StrictSerializer):
    limit = Integer(min_value=1, max_value=100, default=50)
    state = Choice(choices=["open", "closed"], required=False)
    deep = Boolean(required=False)
    after = Instant(required=False)


def test_query_text_is_read_as_the_type_of_its_field() -> None:
    query = QueryDict("limit=7&deep=true&state=open&after=2026-11-20T09%3A30%3A00Z")

    assert Query.check_query(query) == {
        "limit": 7,
        "deep": True,
        "state": "open",
        "after": datetime(2026, 11, 20, 9, 30, tzinfo=UTC),
    }
    assert Query.check_query(QueryDict("")) == {"limit": 50}


def test_query_parameter_that_is_wrong_unknown_or_repeated_is_refused(
    subtests: pytest.Subtests,
) -> None:
    for text, field, code in (
        ("limit=0", "limit", "invalid"),
        ("limit=101", "limit", "invalid"),
        ("limit=" + "9" * 5000, "limit", "invalid"),
        ("limit=abc", "limit", "invalid"),
        ("limit=", "limit", "invalid"),
        ("limit=%D9%A1", "limit", "invalid"),
        ("limit=1&limit=2", "limit", "invalid"),
        ("state=", "state", "invalid"),
        ("deep=1", "deep", "invalid"),
        ("after=2026-11-20T09:30:00", "after", "invalid"),
        ("page=2", "page", "unknown_field"),
        ("state__in=open,closed", "state__in", "unknown_field"),
        ("%00=1", "\0", "unknown_field"),
    ):
        with subtests.test(text=text):
            with pytest.raises(PlatformError) as caught:
                Query.check_query(QueryDict(text))
            assert (caught.value.status, caught.value.code) == (400, code)
            assert [(e.field, e.code) for e in caught.value.errors] == [(field, code)]
