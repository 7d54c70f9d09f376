"""The views of a list: the links above it, and the page on which people keep their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.admin.options import IS_POPUP_VAR, TO_FIELD_VAR
from django.contrib.admin.views.main import ALL_VAR, ERROR_FLAG, PAGE_VAR
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect, QueryDict
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common import saved_views
from apps.common.admin.changelist import BEFORE, NO_VIEW, VIEW
from apps.common.admin.display import shown_text, translate
from apps.common.errors import PlatformError
from apps.common.models import SavedView
from apps.common.readers import read_number

# The parameters of an address other than filters, search, order and columns.
_NOT_KEPT = {ALL_VAR, BEFORE, ERROR_FLAG, IS_POPUP_VAR, PAGE_VAR, TO_FIELD_VAR, VIEW}
_PLAIN = f"{VIEW}={NO_VIEW}"
# The other links fold.
MAX_LINKS = 8
_DONE = {
    "save": _("The view “%s” was saved."),
    "change": _("The view “%s” was saved."),
    "replace": _("The view “%s” now shows this list."),
    "delete": _("The view “%s” was deleted."),
}


@dataclass(frozen=True, slots=True)
class Link:
    """A view above its list; `owner` is empty for one of the reader's own."""

    title: str
    url: str
    owner: str
    is_default: bool
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class ListViews:
    """The views in the head of a list; `query` is what a new view would keep."""

    links: list[Link]
    folded: list[Link]
    url: str
    query: str
    may_share: bool
    has_own: bool


def kept_query(query: QueryDict) -> str:
    """The part of an address that a view keeps; equal for lists that are alike."""
    pairs = [
        (name, text)
        for name, texts in sorted(query.lists())
        for text in texts
        if text and name not in _NOT_KEPT
    ]
    return urlencode(pairs, safe=",:")


def default_of(views: list[SavedView], user: Any) -> SavedView | None:
    """The view that the person has chosen to begin with."""
    return next((each for each in views if each.is_default and each.owner_id == user.pk), None)


def head(model_admin: Any, request: HttpRequest, views: list[SavedView]) -> ListViews:
    """The views for the head of the list."""
    user: Any = request.user
    query = kept_query(request.GET)
    links = [
        Link(
            shown_text(view.title),
            f"?{view.query}",
            "" if view.owner_id == user.pk else view.owner.get_username(),
            view.is_default and view.owner_id == user.pk,
            view.query == query,
        )
        for view in views
    ]
    return ListViews(
        links[:MAX_LINKS],
        links[MAX_LINKS:],
        url=f"{model_admin.url('views')}?{query}",
        query=query,
        may_share=user.has_perm(saved_views.SHARE),
        has_own=any(view.owner_id == user.pk for view in views),
    )


def views_page(request: HttpRequest, *, model_admin: Any) -> HttpResponseBase:
    """A person's own views of a list; a POST keeps, changes or deletes one.

    The address has the list that a view is to be made of.
    """
    if not model_admin.has_view_or_change_permission(request):
        raise PermissionDenied
    query, problem = kept_query(request.GET), ""
    if request.method == "POST":
        try:
            view = _act(request, model_admin, query)
        except PlatformError as error:
            problem = translate(error.detail)
        else:
            done = _DONE[request.POST["do"]] % shown_text(view.title)
            model_admin.message_user(request, done, messages.SUCCESS)
            shows_it = request.POST["do"] in ("save", "replace")
            page = model_admin.changelist_url() if shows_it else request.path
            return HttpResponseRedirect(f"{page}?{query}" if query else page)
    name = _name(model_admin)
    own = [each for each in saved_views.views_of(request.user, name) if each.owner == request.user]
    page = model_admin.page(
        request,
        "admin/views.html",
        status=400 if problem else 200,
        title=gettext("My views"),
        problem=problem,
        views=own,
        query=query,
        typed=request.POST if problem else {},
        may_share=request.user.has_perm(saved_views.SHARE),
        changelist_url=model_admin.changelist_url(),
        list_url=f"{model_admin.changelist_url()}?{query or _PLAIN}",
    )
    return page  # type: ignore[no-any-return]


def _act(request: HttpRequest, model_admin: Any, query: str) -> SavedView:
    given, name = request.POST, _name(model_admin)
    wanted: dict[str, Any] = {
        "title": given.get("title", ""),
        "shared": "shared" in given,
        "is_default": "default" in given,
    }
    match given.get("do"):
        case "save":
            return saved_views.save(owner=request.user, name=name, query=query, **wanted)
        case "change" | "replace" as verb:
            view = _own(request, name)
            return saved_views.change(
                view=view, query=query if verb == "replace" else view.query, **wanted
            )
        case "delete":
            view = _own(request, name)
            saved_views.delete(view=view)
            return view
    raise PermissionDenied


def _own(request: HttpRequest, name: str) -> SavedView:
    number = read_number(request.POST.get("view", "")) or 0
    return saved_views.own_view(request.user, name, number)


def _name(model_admin: Any) -> str:
    """The name of the list in its views."""
    return f"{model_admin.opts.app_label}_{model_admin.opts.model_name}"
