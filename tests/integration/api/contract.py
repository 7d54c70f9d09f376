"""Holds every answer of the REST API against the OpenAPI document that the platform serves."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from jsonschema import Draft202012Validator, FormatChecker

from tests.clients import JsonClient

WIRE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z")
CODES = {
    "invalid",
    "malformed",
    "unknown_field",
    "duplicate_key",
    "too_deep",
    "too_large",
    "bad_text",
    "unsupported_media_type",
    "method_not_allowed",
    "not_authenticated",
    "forbidden",
    "not_found",
    "closed",
    "lease_lost",
    "archived",
    "conflict",
    "limit_reached",
    "throttled",
    "unavailable",
}
PROBLEM_FIELDS = {"type", "title", "status", "detail", "instance", "code", "errors", "request_id"}
# What a caller must never read of the inside; in quotes stands what was sent, and before a colon
# the name of a field, which the caller chose too.
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
INSIDE = re.compile(
    r"Traceback|SELECT |INSERT |UPDATE |\.py\b|apps\.|django|OperationalError", re.I
)

# Sentences of DRF.
NO_ADVICE = ("This field is required", "may not be null", "Request was throttled")

_formats = FormatChecker()


@_formats.checks("date-time")
def _is_wire_time(value: object) -> bool:
    return not isinstance(value, str) or WIRE_TIME.fullmatch(value) is not None


class ContractClient(JsonClient):
    """A JsonClient that fails the test when an answer differs from the document."""

    def request(self, method: str, path: str, body: object = None, **options: Any) -> Any:
        answer = super().request(method, path, body, **options)
        contract().check(method, path.partition("?")[0], answer)
        return answer


# `api_for(job_types=["mail"])`, a fixture: the API with a key of those terms.
ApiFor = Callable[..., ContractClient]


class Contract:
    """The document as JSON Schema: nothing nullable but by type, no undocumented field."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._components = _as_json_schema(document["components"])
        self._validators: dict[str, Draft202012Validator] = {}
        self._fitting: dict[str, dict[str, Mapping[str, Any]]] = {}
        self._operations = [
            (_pattern(path), method.upper(), operation)
            for path, item in sorted(document["paths"].items(), key=lambda pair: pair[0].count("{"))
            for method, operation in item.items()
        ]

    def check(self, method: str, path: str, answer: Any) -> None:
        """AssertionError when status, headers or body differ from what this operation documents."""
        if answer.status_code >= 400:
            check_problem(answer, has_body=method != "HEAD")
        operation = self._operation("GET" if method == "HEAD" else method, path)
        if operation is None:
            allowed = {404} if not self._methods(path) else {401, 403, 405}
            assert answer.status_code in allowed, f"{method} {path} answers {answer.status_code}"
            return
        documented = operation["responses"].get(str(answer.status_code))
        assert documented is not None, (
            f"{method} {path} answers {answer.status_code}, which OpenAPI does not document: "
            f"{answer.content[:300]!r}"
        )
        self._check_answer(self._resolved(documented), answer, has_body=method != "HEAD")

    def takes(self, method: str, path: str, body: object) -> bool:
        """Whether the document says that this operation takes the body."""
        operation = self._operation(method, path)
        assert operation is not None
        content = operation["requestBody"]["content"]["application/json"]
        return self._validator(json.dumps(content["schema"])).is_valid(body)

    def _check_answer(self, response: Mapping[str, Any], answer: Any, *, has_body: bool) -> None:
        for name, header in response.get("headers", {}).items():
            if header.get("required"):
                assert name in answer.headers, f"{answer.status_code} lacks the header {name}"
            if name in answer.headers and header["schema"]["type"] == "integer":
                assert re.fullmatch(r"[1-9]\d*", answer.headers[name])
        if "content" not in response:
            assert answer.content == b""
            return
        kind = answer.headers["Content-Type"].partition(";")[0]
        assert kind in response["content"], f"{kind} is not among {list(response['content'])}"
        if has_body:
            validator = self._validator(json.dumps(response["content"][kind]["schema"]))
            errors = [f"{e.json_path}: {e.message}" for e in validator.iter_errors(answer.json())]
            assert not errors, errors

    def _validator(self, schema_json: str) -> Draft202012Validator:
        """The validator of a schema, made once for each text."""
        if schema_json not in self._validators:
            schema = {**_as_json_schema(json.loads(schema_json)), "components": self._components}
            self._validators[schema_json] = Draft202012Validator(schema, format_checker=_formats)
        return self._validators[schema_json]

    def _operation(self, method: str, path: str) -> Mapping[str, Any] | None:
        return self._methods(path).get(method)

    def _methods(self, path: str) -> dict[str, Mapping[str, Any]]:
        """The operations of the most literal path that fits, looked for once for each address."""
        if path not in self._fitting:
            fits = [each for each in self._operations if each[0].fullmatch(path)]
            first = [each for each in fits if each[0] == fits[0][0]]
            self._fitting[path] = {method: operation for _, method, operation in first}
        return self._fitting[path]

    def _resolved(self, response: Mapping[str, Any]) -> Mapping[str, Any]:
        if "$ref" not in response:
            return response
        name = response["$ref"].rpartition("/")[2]
        return self._components["responses"][name]


def check_problem(answer: Any, *, has_body: bool = True) -> None:
    """AssertionError unless the answer is a complete problem document."""
    assert answer.headers["Content-Type"] == "application/problem+json", answer.content[:300]
    assert "no-store" in answer.headers["Cache-Control"]
    if answer.status_code == 401:
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    if answer.status_code == 405:
        assert answer.headers["Allow"]
    if answer.status_code in (429, 503):
        assert int(answer.headers["Retry-After"]) >= 1
    if not has_body:
        return
    problem = json.loads(answer.content)
    assert set(problem) == PROBLEM_FIELDS
    assert problem["status"] == answer.status_code
    assert problem["code"] in CODES
    assert problem["type"] == f"urn:taskplatform:problem:{problem['code']}"
    assert problem["title"]
    assert problem["detail"]
    assert problem["instance"] == answer.wsgi_request.path
    assert problem["request_id"]
    assert problem["request_id"] == answer.headers["X-Request-Id"]
    for error in problem["errors"]:
        assert set(error) == {"field", "code", "message"}
        assert error["code"] in CODES, error
        assert error["message"]
    sentences = [problem["title"], problem["detail"], *(e["message"] for e in problem["errors"])]
    # The field that a sentence is about stands before it, and says what to write.
    assert not problem["detail"].startswith("This field"), problem
    assert not any(words in said for said in sentences for words in NO_ADVICE), problem
    sent = sorted({e["field"] for e in problem["errors"]} - {""}, key=len, reverse=True)
    for sentence in sentences:
        own = functools.reduce(lambda text, name: text.replace(name, ""), sent, sentence)
        assert not INSIDE.search(QUOTED.sub("", own)), sentence


def pages(api: ContractClient, path: str, **query: Any) -> Iterator[Any]:
    """The answers from the first page of a list to the last, by their `next`."""
    answer = api.get(path, **query)
    assert answer.status_code == 200, answer.content
    yield answer
    while (following := answer.json()["next"]) is not None:
        answer = api.get(following)
        assert answer.status_code == 200, answer.content
        yield answer


def mistakes(answer: Any, status: int = 400) -> list[str]:
    """The fields that a refusal names."""
    assert answer.status_code == status, answer.content
    return [error["field"] for error in answer.json()["errors"]]


@functools.cache
def document() -> dict[str, Any]:
    """The OpenAPI document as `/api/schema/` serves it."""
    return SchemaGenerator().get_schema(request=None, public=True)


@functools.cache
def contract() -> Contract:
    return Contract(document())


def _pattern(path: str) -> re.Pattern[str]:
    """Of a documented path; only the names of templates and job types hold slashes."""
    escaped = re.escape(path)
    inner = ".+" if path.startswith(("/api/v1/templates/", "/api/v1/job-types/")) else "[^/]+"
    return re.compile(re.sub(r"\\{\w+\\}", inner, escaped))


def _as_json_schema(node: Any) -> Any:
    """OpenAPI 3.0 → JSON Schema 2020-12; objects with listed properties are closed."""
    if isinstance(node, list):
        return [_as_json_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    schema = {key: _as_json_schema(value) for key, value in node.items()}
    if schema.get("type") == "object" and isinstance(schema.get("properties"), dict):
        schema.setdefault("additionalProperties", False)
    if schema.pop("nullable", False) is True:
        return {"anyOf": [schema, {"type": "null"}]}
    return schema
