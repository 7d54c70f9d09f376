"""asyncflow over HTTP: the key, the query and the body of a call, and its answers and refusals.

The clients look at the JSON alone, and take what has no code for success: so each refusal has one,
whoever makes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import IO, Any, ClassVar, NoReturn, cast

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from apps.access.authentication import ApiKeyAuthentication, without_secret
from apps.access.bindings import actor_of, client_of, job_types_of, key_of, masks_payload
from apps.access.rules.clients import Binding, Client, Scope
from apps.access.rules.local import is_of_this_machine
from apps.asyncflow.call_request import CallRequest
from apps.asyncflow.calls import CALLS, Call
from apps.asyncflow.conf import conf
from apps.asyncflow.dialects import BODY, BY_NAME, INPUT, OWN_PORT, PREFIX, Dialect, Route
from apps.asyncflow.translate import Refused, readable
from apps.common.api.parsers import read_body
from apps.common.api.views import ApiView, JsonAnswer
from apps.common.errors import NotAuthenticated, PlatformError
from apps.common.json.text import parse_json
from apps.common.json_rules import MAX_BYTES
from apps.jobs.models.bounds import Bounds
from apps.jobs.rules.caller import Caller

# Headers that browsers add; a page in a browser may be anybody's.
_OF_BROWSERS = ("HTTP_ORIGIN", "HTTP_SEC_FETCH_SITE")
_NO_KEY = (
    "Write a key into the address of this server: http://<client-id>:<secret>@<host>/asyncflow/…"
)
_NO_ADDRESS = "No call has this address; compare it with the README of apps/asyncflow."
_NOT_OF_NAMES = re.compile(r"[^A-Za-z0-9.:]")


class WireAuthentication(ApiKeyAuthentication):
    """The key as everywhere, usually as HTTP Basic in the address of a client; for calls from this
    machine without one, at a port of ASYNCFLOW_PORTS, the client that a setting names."""

    def authenticate(self, request: Request) -> tuple[Client, Client] | None:
        found = super().authenticate(request)
        if found or not _is_vouched_for(request.META):
            return found
        local = without_secret(conf.ASYNCFLOW_LOOPBACK_CLIENT)
        return (local, local) if local else None


def _is_vouched_for(meta: Mapping[str, Any]) -> bool:
    is_direct = OWN_PORT in meta and not any(header in meta for header in _OF_BROWSERS)
    return bool(conf.ASYNCFLOW_LOOPBACK_CLIENT) and is_direct and is_of_this_machine(meta)


class WireParser(BaseParser):
    """A JSON object whatever the media type, which workers leave out; no body is an empty one."""

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        request: HttpRequest = (parser_context or {})["request"]._request
        if request.META.get("CONTENT_LENGTH") in (None, "", "0"):
            return {}
        return parse_json(read_body(request, MAX_BYTES))


class WireView(ApiView):
    """One call of one dialect; it is not in OpenAPI, which describes the platform's own API."""

    dialect: ClassVar[Dialect]
    route: ClassVar[Route]
    call: ClassVar[Call]

    schema = None
    # No HEAD: it would carry out what a GET does.
    http_method_names = ["get", "post"]
    authentication_classes = [WireAuthentication]
    parser_classes = [WireParser]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """The query is read with the body, so it is not checked against a serializer."""
        self.perform_authentication(request)
        self.check_permissions(request)
        self.check_throttles(request)
        if request.method not in self.allowed_methods:
            self.http_method_not_allowed(request)

    def permission_denied(self, request: Request, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotAuthenticated(_NO_KEY)

    def _answer(self, request: Request) -> JsonAnswer:
        route, dialect = self.route, self.dialect
        failure = BODY
        try:
            call_request = self._call_request(request)
            failure = self.call.failure
            value = self.call.run(call_request)
        except PlatformError as error:
            if error.status >= 429:
                raise
            number = error.number if isinstance(error, Refused) else failure
            return JsonAnswer(dialect.refusal(number, error.detail, route.key))
        return JsonAnswer(dialect.answer(route.key, value))

    def _call_request(self, request: Request) -> CallRequest:
        client = key_of(request)
        body = cast(dict[str, Any], request.data)
        query = readable(request.query_params.dict())
        address = _NOT_OF_NAMES.sub("", request.META.get("REMOTE_ADDR", ""))
        return CallRequest(
            dialect=self.dialect,
            values={**readable(body), **query},
            caller=Caller(client_of(request), job_types_of(request)),
            bounds=Bounds.of_key(client),
            actor=actor_of(request),
            address=address or "local",
            may_hold=Scope.HOLD in client.scopes and Binding.EXECUTORS not in client.bindings,
            masks=masks_payload(request),
        )


def view_of(dialect: Dialect, route: Route) -> Callable[..., HttpResponseBase]:
    """The view of one address."""
    call = CALLS[route.call]
    answers = dict.fromkeys(route.methods, WireView._answer)
    scopes = {method.upper(): call.scope for method in route.methods}
    name = f"{dialect.name}_{route.call}"
    own = {"scopes": scopes, "bindings": call.bindings, **answers}
    view: Any = type(name, (WireView,), {"dialect": dialect, "route": route, "call": call, **own})
    return view.as_view()  # type: ignore[no-any-return]


def ping(request: HttpRequest) -> JsonAnswer:
    """Answer that the server is there; this says nothing that would need a key."""
    return JsonAnswer({"message": "pong"})


class RefusalMiddleware:
    """Gives every refusal below /asyncflow/ the form of its dialect: those of keys, rates, sizes,
    methods and unknown addresses are made where dialects are not known."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if not request.path_info.startswith(PREFIX) or not isinstance(response, HttpResponse):
            return response
        if response.headers.get("Content-Type") == "application/json":
            return response
        name = request.path_info.removeprefix(PREFIX).partition("/")[0]
        refusal = BY_NAME.get(name, next(iter(BY_NAME.values()))).refusal(INPUT, _detail(response))
        text = json.dumps(refusal, ensure_ascii=False, separators=(",", ":"))
        response.content = text.encode(errors="backslashreplace")
        response.headers["Content-Type"] = "application/json"
        return response


def _detail(response: HttpResponse) -> str:
    """The reason of the refusal, as the API writes it."""
    if response.status_code == 404:
        return _NO_ADDRESS
    try:
        return str(json.loads(response.content)["detail"])
    except (ValueError, KeyError, TypeError):
        return response.reason_phrase
