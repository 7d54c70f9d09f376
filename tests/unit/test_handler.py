"""Each address keeps its view and its parameters, however often it is asked for."""

from __future__ import annotations

import pytest
from django.http import Http404, HttpRequest, HttpResponse
from django.test import RequestFactory
from django.urls import include, path, re_path

from taskplatform.handler import Handler


def named(request: HttpRequest, name: str = "") -> HttpResponse:
    return HttpResponse(name)


def plain(request: HttpRequest) -> HttpResponse:
    return HttpResponse("plain")


urlpatterns = [
    path("api/", include([path("plain/", plain), path("named/<str:name>/", named)])),
    re_path(r"^odd/(?P<name>.*)$", named),
    path("", named),
]

pytestmark = pytest.mark.urls(__name__)


def test_an_address_leads_to_the_same_view_and_parameters_every_time() -> None:
    handler = Handler()
    for _ in range(3):
        for address, view, given in (
            ("/api/plain/", plain, {}),
            ("/api/named/a/", named, {"name": "a"}),
            ("/api/named/b/", named, {"name": "b"}),
            ("/odd/", named, {"name": ""}),
            ("/odd/c", named, {"name": "c"}),
            ("/", named, {}),
        ):
            request = RequestFactory().get(address)
            found = handler.resolve_request(request)
            assert (found.func, found.kwargs) == (view, given)
            assert request.resolver_match is found


def test_unknown_addresses_and_parameters_are_not_kept() -> None:
    handler = Handler()
    for number in range(100):
        with pytest.raises(Http404):
            handler.resolve_request(RequestFactory().get(f"/nope/{number}/"))
        handler.resolve_request(RequestFactory().get(f"/api/named/{number}/"))
        handler.resolve_request(RequestFactory().get("/api/plain/"))

    assert len(handler._found) == 1
