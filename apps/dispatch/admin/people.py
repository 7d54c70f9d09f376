"""How lists and pages name executors."""

from __future__ import annotations

from typing import Any

from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import column
from apps.common.admin.html import page_url
from apps.common.admin.who import who
from apps.dispatch.models import Executor


def person(executor: Executor) -> SafeString:
    """The executor by its title and name, leading to its page."""
    url = page_url(Executor, executor.pk)
    return who(executor.name, executor.title, url=url, is_group=executor.is_group)


@column(_("executor"))
def person_column(_admin: Any, row: Any) -> SafeString:
    """The executor of the row; the list reads those of a page at once."""
    return person(row.executor)
