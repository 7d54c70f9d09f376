"""How lists and pages name executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import column, shown_text, translate
from apps.common.admin.html import page_url
from apps.common.admin.who import FINDERS, Known, who
from apps.common.messages import Message
from apps.dispatch.models import Executor
from apps.dispatch.rules.names import is_name


def person(executor: Executor) -> SafeString:
    """The executor by its title and name, leading to its page."""
    url = page_url(Executor, executor.pk)
    return who(executor.name, executor.title, url=url, is_group=executor.is_group)


def with_titles(message: str, *people: Executor) -> str:
    """The message with the titles of these in place of their names, in the language of the page."""
    if isinstance(message, Message):
        titles = {each.name: shown_text(each.title, limit=80) for each in people if each.title}
        params = {name: titles.get(str(value), value) for name, value in message.params.items()}
        message = type(message)(message.template, **params)
    return translate(message)


@column(_("who"))
def person_column(_admin: Any, row: Any) -> SafeString:
    """The executor of the row; the list reads those of a page at once."""
    return person(row.executor)


def _known(names: Iterable[str], user: Any) -> Iterator[Known]:
    possible = [name for name in names if is_name(name)]
    if not possible or not user.has_perm("dispatch.view_executor"):
        return
    for row in Executor.objects.visible_to(user).filter(name__in=possible):
        yield Known(row.name, row.title, page_url(Executor, row.pk), row.is_group)


FINDERS.append(_known)
