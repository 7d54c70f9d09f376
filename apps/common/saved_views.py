"""Lists as people like to see them, for themselves or for all who see the list."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Case, Q, When

from apps.common.db import transactional
from apps.common.errors import Conflict, Forbidden, Invalid, NotFound
from apps.common.messages import Message as _
from apps.common.models import SavedView

SHARE = "common.share_savedview"
MAX_TITLE = 60
MAX_QUERY = 2_000
# The views that one person may have on all lists; and those shown of a list, of all people.
MAX_VIEWS = 100
MAX_SHOWN = 100


def views_of(user: Any, name: str) -> list[SavedView]:
    """The views of the list that the person sees: their own by title, then those of others."""
    seen = SavedView.objects.filter(Q(owner=user) | Q(shared=True), list=name)
    own_first = Case(When(owner=user, then=0), default=1)
    return list(seen.select_related("owner").order_by(own_first, "title", "pk")[:MAX_SHOWN])


def own_view(user: Any, name: str, number: int) -> SavedView:
    """The view, if this person may change it; NotFound for any other."""
    view = SavedView.objects.filter(pk=number, owner=user, list=name).first()
    if view is None:
        raise NotFound(_("You have no such view of this list any more."))
    return view


@transactional
def save(
    *, owner: Any, name: str, title: str, query: str, shared: bool, is_default: bool
) -> SavedView:
    """Keep a new view of the list of that name."""
    if SavedView.objects.filter(owner=owner)[:MAX_VIEWS].count() >= MAX_VIEWS:
        text = _("You have {count} views; delete one that you do not need.", count=MAX_VIEWS)
        raise Conflict(text)
    view = SavedView(owner=owner, list=name)
    return _write(view, owner, title, query, shared, is_default)


@transactional
def change(*, view: SavedView, title: str, query: str, shared: bool, is_default: bool) -> SavedView:
    """Give the view of its owner another title, address or audience."""
    return _write(view, view.owner, title, query, shared, is_default)


@transactional
def delete(*, view: SavedView) -> None:
    """Forget the view, for those too with whom it is shared."""
    view.delete()


def _write(
    view: SavedView, owner: Any, title: str, query: str, shared: bool, is_default: bool
) -> SavedView:
    if shared and not view.shared and not owner.has_perm(SHARE):
        raise Forbidden(_("You may keep views for yourself, but not share them."))
    view.title, view.query = _title(title), _query(query)
    view.shared, view.is_default = shared, is_default
    others = SavedView.objects.filter(owner=owner, list=view.list).exclude(pk=view.pk)
    if is_default:
        others.filter(is_default=True).update(is_default=False)
    try:
        with transaction.atomic():
            view.save()
    except IntegrityError as error:
        text = _("You have a view {title!r} of this list; choose another title.", title=view.title)
        raise Invalid.field("title", text) from error
    return view


def _title(text: str) -> str:
    title = " ".join(text.split())
    if not title or not title.isprintable() or len(title) > MAX_TITLE:
        raise Invalid.field(
            "title", _("Give the view a title of at most {limit} characters.", limit=MAX_TITLE)
        )
    return title


def _query(query: str) -> str:
    if not query:
        text = _("The list shows everything; choose filters or columns first, then save it.")
        raise Invalid.field("query", text)
    if len(query) > MAX_QUERY:
        text = _("The address of this list is too long to be saved; take some filters off.")
        raise Invalid.field("query", text)
    return query
