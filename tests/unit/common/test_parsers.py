"""What the body of a request may be, and how each other body is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIRequest
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st

import apps.common.json.text as json_text
from apps.common.api.parsers import check_content_headers, read_body
from apps.common.errors import PlatformError
from apps.common.json.text import BATCH_MEMBERS, parse_json
from apps.common.json_rules import MAX_BYTES, MAX_DEPTH, check_json, count_members

JSON_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters())
JSON_VALUES = st.recursive(
    JSON_SCALARS, lambda below: st.lists(below) | st.dictionaries(st.text(), below), max_leaves=30
)


def refusal(body: bytes, *, batch: bool = False) -> PlatformError:
    with pytest.raises(PlatformError) as caught:
        parse_json(body, batch=batch)
    return caught.value


def nested(depth: int) -> bytes:
    """An object whose deepest bracket is the `depth`-th."""
    return b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


def with_keys(count: int) -> bytes:
    return json.dumps({f"k{n}": n for n in range(count)}).encode()


def test_body_that_is_no_storable_json_object_is_refused_with_its_code(
    subtests: pytest.Subtests,
) -> None:
    """I18: what could not round-trip on every database never gets in."""
    for body, code, detail in (
        (b'{"a":', "malformed", "The body is not JSON from line 1, column 6 on."),
        (b'{"a":1,\n"b":2}}', "malformed", "from line 2, column 7 on"),
        (b"{'a':1}", "malformed", "from line 1, column 2 on"),
        (b'{"a":1}{"a":1}', "malformed", "from line 1, column 8 on"),
        # Python 3.13 names the comma, earlier ones the bracket behind it.
        (b'{"a":1,}', "malformed", "from line 1, column "),
        (b"/* */{}", "malformed", "from line 1, column 1 on"),
        (b"uid=uid_alice&number=1", "malformed", "from line 1, column 1 on"),
        (b'{"a":"\x01"}', "malformed", "from line 1, column 7 on"),
        (b'{"a":"\x00"}', "malformed", "from line 1, column 7 on"),
        (b"   ", "malformed", "not JSON"),
        (b"null", "malformed", "is null"),
        (b"[]", "malformed", "is an array"),
        (b'"uid_alice"', "malformed", "is a string"),
        (b"7", "malformed", "is a number"),
        (b"true", "malformed", "is a boolean"),
        (b"\xef\xbb\xbf{}", "malformed", "byte order mark"),
        ('{"a":1}'.encode("utf-16"), "malformed", "byte order mark"),
        ('{"a":1}'.encode("utf-16-le"), "malformed", "not JSON"),
        ('{"a":1}'.encode("utf-32"), "malformed", "byte order mark"),
        (b'{"a":"\xc0\xaf"}', "malformed", "not UTF-8"),
        (b'{"a":"\xff"}', "malformed", "The body is not UTF-8 at byte 6"),
        (b'{"a":"\xed\xa0\x80"}', "malformed", "not UTF-8"),
        (b'{"a":NaN}', "invalid", "NaN is not a JSON number"),
        (b'{"a":[-Infinity]}', "invalid", "-Infinity is not a JSON number"),
        (b'{"a":1e999}', "invalid", "1e999 is out of range"),
        (b'{"a":9223372036854775808}', "invalid", "more than 64 bits"),
        (b'{"a":-9223372036854775809}', "invalid", "more than 64 bits"),
        (b'{"a":' + b"9" * 4301 + b"}", "invalid", "more than 64 bits"),
        (b'{"a":' + b"9" * 200_000 + b"}", "invalid", "more than 64 bits"),
        (b'{"a":1,"b":{"c":1,"c":1}}', "duplicate_key", "'c' occurs twice"),
        (b'{"a":1,"\\u0061":1}', "duplicate_key", "'a' occurs twice"),
        (b'{"\\ud800":1,"\\ud800":1}', "duplicate_key", "'?' occurs twice"),
        (b'{"a":"x\\u0000"}', "bad_text", "NUL"),
        (b'{"\\u0000":1}', "bad_text", "NUL"),
        (b'{"a":["\\ud83d"]}', "bad_text", "surrogates"),
        (b'{"a":"\\uDE00\\ud83d"}', "bad_text", "surrogates"),
    ):
        with subtests.test(body=body):
            error = refusal(body)
            assert (error.status, error.code) == (400, code)
            assert detail in error.detail


def test_unusual_but_sound_body_is_read(subtests: pytest.Subtests) -> None:
    for body, value in (
        (b" {} \r\n", {}),
        (b'{"a":"\\ud83d\\ude00"}', {"a": "\N{GRINNING FACE}"}),
        (b'{"a":"\\\\u0000"}', {"a": "\\u0000"}),
        (b'{"a":9223372036854775807,"b":-9223372036854775808}', {"a": 2**63 - 1, "b": -(2**63)}),
        (b'{"a":[{"a":1},{"a":2}]}', {"a": [{"a": 1}, {"a": 2}]}),
        ('{"ä":"巡店"}'.encode(), {"ä": "巡店"}),
    ):
        with subtests.test(body=body):
            assert parse_json(body) == value


def test_twenty_levels_are_read_and_twenty_one_refused() -> None:
    parse_json(nested(20))

    assert refusal(nested(21)).code == "too_deep"


@pytest.mark.parametrize("depth", [5_000, 4_000_000])
def test_absurdly_deep_body_is_refused_before_it_is_parsed(depth: int) -> None:
    assert refusal(b"[" * depth, batch=True).code == "too_deep"


def test_brackets_inside_strings_do_not_count_as_levels(subtests: pytest.Subtests) -> None:
    for text in (b"[" * 50, b'\\"' + b"[" * 50, b"\\\\\\" + b'"' + b"{" * 50, b"[" * 50 + b"\\\\"):
        with subtests.test(text=text):
            assert parse_json(b'{"a":["' + text + b'"]}')


def test_string_before_the_brackets_does_not_hide_them(subtests: pytest.Subtests) -> None:
    for text in (b"", b"\\\\", b'\\"', b"\\\\\\\\"):
        with subtests.test(text=text):
            body = b'{"a":["' + text + b'",' + b"[" * 19 + b"]" * 19 + b"]}"
            assert refusal(body).code == "too_deep"


def test_thousand_keys_in_the_whole_tree_are_read_and_one_more_refused() -> None:
    assert len(parse_json(with_keys(1000))) == 1000

    error = refusal(b'{"a":[' + with_keys(500) + b"," + with_keys(500) + b"]}")
    assert (error.status, error.code) == (400, "limit_reached")


def test_colons_inside_strings_do_not_count_as_keys() -> None:
    assert parse_json(b'{"a":"' + b":" * 5000 + b'"}')


def test_batch_item_may_use_all_that_a_single_body_may() -> None:
    deepest = nested(20)
    many = b'{"jobs":[' + b",".join([deepest, with_keys(1000), with_keys(1000)]) + b"]}"

    assert len(parse_json(many, batch=True)["jobs"]) == 3


def test_batch_item_beyond_the_single_limits_is_refused_by_its_position(
    subtests: pytest.Subtests,
) -> None:
    for item, status, code in (
        (nested(21), 400, "too_deep"),
        (with_keys(1001), 400, "limit_reached"),
        (b'{"a":"' + b"x" * MAX_BYTES + b'"}', 413, "too_large"),
        (b'{"a":"\\ud800"}', 400, "bad_text"),
    ):
        with subtests.test(item=item):
            error = refusal(b'{"jobs":[{},' + item + b"]}", batch=True)
            assert (error.status, error.code) == (status, code)
            assert [e.field for e in error.errors] == ["jobs[1]"]


def test_batch_takes_a_thousand_items_and_not_one_more() -> None:
    parse_json(b'{"jobs":[' + b",".join([b"{}"] * 1000) + b"]}", batch=True)

    error = refusal(b'{"jobs":[' + b",".join([b"{}"] * 1001) + b"]}", batch=True)
    assert (error.status, error.code) == (400, "invalid")
    assert error.errors[0].field == "jobs"
    assert "1001" in error.detail


def test_body_has_a_budget_of_items_and_keys(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch beyond it is refused before it is parsed; what stands in texts is none of it."""
    words = b'"a, \\" [1, 2], {3}",'
    for name, item, count, batch, refused in (
        ("single", b"1,", 10_996, False, False),
        ("single", b"1,", 11_000, False, True),
        ("batch item", b"1,", 11_000, True, True),
        ("texts", words, 10_990, True, False),
    ):
        body = b'{"jobs":[{"a":[' + item * count + b"1]}]}"
        with subtests.test(f"{name} of {count}"):
            if refused:
                assert refusal(body, batch=batch).code == "limit_reached"
            else:
                assert parse_json(body, batch=batch)

    within = b'{"jobs":[' + b",".join([b"[" + b"1," * 197 + b"1]"] * 1000) + b"]}"
    assert parse_json(within, batch=True)
    monkeypatch.setattr(json_text, "_decoder", None)
    for item in (b"1", b'""', b"[]", b'{"a":""}', b'{"":1}'):
        with subtests.test(str(item)):
            body = b'{"jobs":[' + b",".join([item] * (BATCH_MEMBERS + 1)) + b"]}"
            assert refusal(body, batch=True).code == "limit_reached"


@given(JSON_VALUES)
def test_measure_of_a_text_is_never_less_than_the_value_has(value: Any) -> None:
    body = json.dumps(value, ensure_ascii=False).encode(errors="replace")
    # Where there is much, it is counted outside of texts.
    for text in (body, b"[" * MAX_DEPTH + body + b"]" * MAX_DEPTH):
        depth, members = json_text._measure(text)
        assert members >= count_members(json.loads(text))
        assert depth >= MAX_DEPTH or text is body


def test_batch_envelope_has_the_single_limits_itself() -> None:
    memo = b'{"memo":"' + b"x" * MAX_BYTES + b'","jobs":[]}'

    assert refusal(memo, batch=True).code == "too_large"


@given(JSON_VALUES)
def test_any_value_comes_back_equal_or_is_refused_by_name(value: Any) -> None:
    """I18: read is exactly what was written, or a PlatformError."""
    body = json.dumps({"value": value}).encode()
    try:
        read = parse_json(body)
    except PlatformError as error:
        assert error.status in (400, 413)
        with pytest.raises(PlatformError):
            check_json({"value": value})
    else:
        assert read == {"value": value}
        check_json(read)


@given(st.binary(max_size=200) | st.text('[]{}":,\\u019dDaeNtr ').map(str.encode), st.booleans())
def test_any_bytes_are_an_object_or_refused_by_name(body: bytes, batch: bool) -> None:
    try:
        value = parse_json(body, batch=batch)
    except PlatformError as error:
        assert error.status == 400
    else:
        assert value == json.loads(body)


# --- from the connection ----------------------------------------------------------------------
class Stream:
    """A body on a connection that hands out pieces and counts what was taken."""

    def __init__(self, *pieces: bytes, ending: Exception | None = None) -> None:
        self._pieces: Iterator[bytes] = iter(pieces)
        self._ending = ending
        self.taken = 0

    def read(self, size: int) -> bytes:
        piece = next(self._pieces, b"")
        if not piece and self._ending:
            raise self._ending
        self.taken += len(piece)
        return piece[:size]

    def readline(self, size: int = -1) -> bytes:
        raise AssertionError("bodies are not read by line")


def request_with(stream: Any, **environ: Any) -> WSGIRequest:
    base = RequestFactory()._base_environ(REQUEST_METHOD="POST")
    return WSGIRequest({**base, "wsgi.input": stream, "CONTENT_LENGTH": "", **environ})


def declaring(length: str, stream: Stream) -> WSGIRequest:
    request = request_with(stream)
    request.META["CONTENT_LENGTH"] = length
    return request


def test_body_of_declared_length_is_read() -> None:
    request = request_with(Stream(b'{"a"', b":1}"), CONTENT_LENGTH="7")

    assert read_body(request, 100) == b'{"a":1}'


def test_body_as_large_as_the_limit_is_read() -> None:
    request = request_with(BytesIO(b"x" * MAX_BYTES), CONTENT_LENGTH=str(MAX_BYTES))

    assert len(read_body(request, MAX_BYTES)) == MAX_BYTES


@pytest.mark.parametrize("length", [str(MAX_BYTES + 1), "9" * 19, "9" * 5000])
def test_declared_length_over_the_limit_is_refused_unread(length: str) -> None:
    stream = Stream(b"x" * 1000)

    with pytest.raises(PlatformError) as caught:
        read_body(declaring(length, stream), MAX_BYTES)
    assert (caught.value.status, caught.value.code) == (413, "too_large")
    assert stream.taken == 0


def test_length_that_is_no_number_is_refused(subtests: pytest.Subtests) -> None:
    for length in ("-1", "7.0", "abc", "0x7", "١٢"):
        with subtests.test(length=length):
            with pytest.raises(PlatformError, match="Content-Length is not a number") as caught:
                read_body(declaring(length, Stream(b"{}")), 100)
            assert caught.value.code == "malformed"


def test_body_that_does_not_arrive_whole_is_malformed(subtests: pytest.Subtests) -> None:
    for stream, length, detail in (
        (Stream(b'{"a"'), "7", "ended after 4 of 7 bytes"),
        (Stream(b'{"a"', ending=ConnectionResetError()), "7", "connection broke"),
        (Stream(), "0", "empty"),
        (Stream(), "", "empty"),
        (Stream(b"unread, for its end is unknown"), "", "empty"),
    ):
        with subtests.test(detail=detail, length=length):
            with pytest.raises(PlatformError, match=detail) as caught:
                read_body(request_with(stream, CONTENT_LENGTH=length), 100)
            assert (caught.value.status, caught.value.code) == (400, "malformed")


def test_plain_json_in_utf8_is_taken(subtests: pytest.Subtests) -> None:
    for headers in (
        {"CONTENT_TYPE": "application/json"},
        {"CONTENT_TYPE": "Application/JSON; charset=UTF-8"},
        {"CONTENT_TYPE": 'application/json;charset="utf8"; version=1'},
        {"CONTENT_TYPE": "application/json", "HTTP_CONTENT_ENCODING": "identity"},
    ):
        with subtests.test(headers=headers):
            check_content_headers(request_with(Stream(), **headers))


def test_other_content_is_an_unsupported_media_type(subtests: pytest.Subtests) -> None:
    for headers, detail in (
        ({"CONTENT_TYPE": ""}, "No readable content type"),
        ({"CONTENT_TYPE": "application/x-www-form-urlencoded"}, "urlencoded"),
        ({"CONTENT_TYPE": "text/plain"}, "text/plain"),
        ({"CONTENT_TYPE": "application/vnd.api+json"}, "vnd.api"),
        ({"CONTENT_TYPE": "application/jsonx"}, "jsonx"),
        ({"CONTENT_TYPE": "multipart/form-data; boundary=x"}, "multipart"),
        ({"CONTENT_TYPE": "*/*"}, "no content type here"),
        ({"CONTENT_TYPE": "application/json; charset=latin-1"}, "'latin-1'"),
        ({"CONTENT_TYPE": "application/json; charset=bogus"}, "'bogus'"),
        ({"CONTENT_TYPE": "application/json", "HTTP_CONTENT_ENCODING": "gzip"}, "'gzip'"),
        ({"CONTENT_TYPE": "application/json", "HTTP_CONTENT_ENCODING": "br, gzip"}, "'br, gzip'"),
    ):
        with subtests.test(headers=headers):
            with pytest.raises(PlatformError, match=detail) as caught:
                check_content_headers(request_with(Stream(), **headers))
            assert (caught.value.status, caught.value.code) == (415, "unsupported_media_type")
