"""OpenAPI of the API views, generated from the serializers that check requests."""

from __future__ import annotations

import inspect
import json
import re
from http import HTTPStatus
from typing import Any

from drf_spectacular.extensions import OpenApiSerializerExtension, OpenApiSerializerFieldExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentRegistry, ResolvedComponent
from drf_spectacular.utils import Direction

from apps.common.api.paging import PageQuery
from apps.common.api.serializer_fields import Name, Text
from apps.common.api.serializers import StrictSerializer
from apps.common.readers import KEY_PATTERN

_TEXT = {"type": "string"}
PROBLEM: dict[str, Any] = {
    "type": "object",
    "description": "What went wrong, after RFC 9457; `code` is for programs.",
    "properties": {
        "type": {**_TEXT, "format": "uri", "description": "urn:taskplatform:problem:<code>"},
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": {**_TEXT, "description": "What was wrong and what to do next."},
        "instance": {**_TEXT, "description": "The path of the request."},
        "code": _TEXT,
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "field": {**_TEXT, "description": "A path like `jobs[3].type`; empty: all."},
                    "code": _TEXT,
                    "message": _TEXT,
                },
                "required": ["field", "code", "message"],
            },
        },
        "request_id": {**_TEXT, "description": "The log has more under this id."},
    },
    "required": ["type", "title", "status", "detail", "code", "errors", "request_id"],
}
_WAIT = {"schema": {"type": "integer"}, "required": True, "description": "Seconds to wait."}
_HEADERS = {
    401: {"WWW-Authenticate": {"schema": _TEXT, "required": True}},
    429: {"Retry-After": _WAIT},
    503: {"Retry-After": _WAIT},
}


_BLANK = {"type": "string", "maxLength": 0}


class PageEnvelope:
    """Documents what `KeysetPage.answer` returns; its parameters come from PageQuery."""

    def get_paginated_response_schema(self, results: dict[str, Any]) -> dict[str, Any]:
        address = {
            **_TEXT,
            "nullable": True,
            "description": "Address of the next page without host; null on the last one.",
        }
        return {
            "type": "object",
            "properties": {"next": address, "results": results},
            "required": ["next", "results"],
        }

    def get_schema_operation_parameters(self, view: object) -> list[dict[str, Any]]:
        return []


_VERBS = {"POST": "create", "PUT": "replace", "PATCH": "change", "DELETE": "delete"}


class ProblemSchema(AutoSchema):
    """Reads `queries`, `bodies`, `answers`, `problems` and `operations` of an `ApiView`."""

    def get_operation_id(self) -> str:
        """The name of the function in generated clients: `list_jobs`, `get_job`, `cancel_job`,
        `hold_jobs`; `operations` of the view replace names that would be odd."""
        named: str | None = getattr(self.view, "operations", {}).get(self.method.lower())
        if named is not None:
            return named
        # The parts of an address under /api/v1/; a name before a parameter is in the singular.
        parts = re.findall(r"([\w-]+)/({\w+}/)?", self.path.partition("/v1/")[2] or self.path)
        *rest, last = [
            _one(name) if parameter else name.replace("-", "_") for name, parameter in parts
        ]
        if self.method == "GET":
            return "_".join(["list" if self._is_list_view() else "get", *rest, last])
        if rest and self.method == "POST":
            return "_".join([last, *rest])
        return "_".join([_VERBS[self.method], *rest, _one(last)])

    def get_operation(
        self,
        path: str,
        path_regex: str,
        path_prefix: str,
        method: str,
        registry: ComponentRegistry,
    ) -> dict[str, Any] | None:
        operation = super().get_operation(path, path_regex, path_prefix, method, registry)
        if operation is not None:
            if "requestBody" in operation:
                # An empty body is an error even where {} is not.
                operation["requestBody"]["required"] = True
            for status in self._problem_statuses(operation):
                operation["responses"].setdefault(str(status), self._problem(status))
        return operation

    def get_override_parameters(self) -> list[Any]:
        query = self._declared("queries")
        return [query] if query else []

    def get_request_serializer(self) -> Any:
        return self._declared("bodies")

    def get_response_serializers(self) -> Any:
        answers = getattr(self.view, "answers", {})
        return answers.get(self.method.lower()) or super().get_response_serializers()

    def _declared(self, table: str) -> type[StrictSerializer] | None:
        declared: type[StrictSerializer] | None
        declared = getattr(self.view, table, {}).get(self.method.lower())
        return declared

    def _get_paginator(self) -> PageEnvelope | None:
        query = self._declared("queries")
        return PageEnvelope() if query and issubclass(query, PageQuery) else None

    def _problem_statuses(self, operation: dict[str, Any]) -> list[int]:
        statuses = {400, 503, *getattr(self.view, "problems", ())}
        if "security" in operation:
            statuses |= {401, 403, 429}
        if "requestBody" in operation:
            statuses |= {413, 415}
        if "{" in self.path:
            statuses.add(404)
        elif self.method == "GET":
            # Whose address has both: a list meets nothing that stands against it.
            statuses -= {409, 422}
        return sorted(statuses)

    def _problem(self, status: int) -> dict[str, Any]:
        problem = self._component("Problem", ResolvedComponent.SCHEMA, PROBLEM)
        answer: dict[str, Any] = {
            "description": HTTPStatus(status).phrase,
            "content": {"application/problem+json": {"schema": problem.ref}},
        }
        if status in _HEADERS:
            answer["headers"] = _HEADERS[status]
        return self._component(f"Problem{status}", ResolvedComponent.RESPONSE, answer).ref

    def _component(self, name: str, kind: str, content: dict[str, Any]) -> ResolvedComponent:
        component = ResolvedComponent(name, kind, content, name)  # type: ignore[no-untyped-call]
        self.registry.register_on_missing(component)
        return component


def _one(name: str) -> str:
    """`once_task` of `once-tasks`, `dispatch` of `dispatches`."""
    name = name.replace("-", "_")
    return name.removesuffix("es" if name.endswith("ches") else "s")


class StrictSerializerExtension(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """Documents that unknown fields are errors, which fields go together, and what is meant by a
    field that is left out.

    Defaults of a body are words: clients are generated with a type for what is sent, and a field
    with the keyword `default` is one that must be sent, for TypeScript.
    """

    target_class = StrictSerializer
    match_subclasses = True

    def map_serializer(self, auto_schema: AutoSchema, direction: Direction) -> dict[str, Any]:
        if self.target.shapes:
            refs = [
                auto_schema.resolve_serializer(shape, direction).ref for shape in self.target.shapes
            ]
            return {"oneOf": refs, "description": inspect.getdoc(type(self.target))}
        schema: dict[str, Any] = auto_schema._map_serializer(  # type: ignore[no-untyped-call]
            self.target, direction, bypass_extensions=True
        )
        if direction == "request":
            schema["additionalProperties"] = False
            if auto_schema.method == "PATCH" and self.target.always:
                # drf-spectacular takes none of a partial body for required.
                schema["required"] = [
                    each for each in self.target.fields if each in self.target.always
                ]
            if self.target.never:
                schema["not"] = self.target.never
        for field in schema.get("properties", {}).values():
            if _BLANK in field.get("oneOf", []):
                # The pattern of names already allows for the blank one.
                field.update(field.pop("oneOf")[0])
        changes = auto_schema.method == "PATCH" or self.target.is_changes
        queries = getattr(auto_schema.view, "queries", {}).get(auto_schema.method.lower())
        is_body = direction == "request" and not (queries and isinstance(self.target, queries))
        for field in schema.get("properties", {}).values() if is_body else ():
            if "default" in field:
                value = field.pop("default")
                if not changes:
                    _say_default(field, value)
        if not vars(type(self.target)).get("__doc__"):
            # The docstring of StrictSerializer is for its callers.
            schema.pop("description", None)
        return schema


def _say_default(field: dict[str, Any], value: Any) -> None:
    # Before the list of words, which becomes that of the enumeration.
    text, star, words = field.get("description", "").partition("* `")
    said = f"{text.strip()} When absent: {json.dumps(value)}.".strip()
    field["description"] = f"{said}\n\n{star}{words}".strip()


class TextExtension(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    """Documents which texts are errors, besides those that are too long."""

    target_class = Text
    match_subclasses = True

    def map_serializer_field(self, auto_schema: AutoSchema, direction: Direction) -> dict[str, Any]:
        schema: dict[str, Any] = auto_schema._map_serializer_field(  # type: ignore[no-untyped-call]
            self.target, direction, bypass_extensions=True
        )
        if isinstance(self.target, Name):
            schema["pattern"] = f"^{KEY_PATTERN}$"
        elif not self.target.allow_blank:
            schema["pattern"] = r"\S"
        return schema
