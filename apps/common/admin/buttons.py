"""Actions as buttons: above the page of a row, and in a row of a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from apps.common.admin.actions import ReasonAction, allows, specs
from apps.common.admin.html import link

# Buttons that a page shows beside each other.
MAX_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class Button:
    """A link on the page of a row, or with `posts` the rows that a form sends to the address; the
    key presses it if there is one."""

    url: str
    text: str | Promise
    icon: str
    is_dangerous: bool = False
    posts: str = ""
    key: str = ""


def buttons(admin: Any, request: HttpRequest, row: Any) -> list[Button]:
    """The actions that this person and the state of this row allow."""
    return [
        _button(admin.url("act", name), spec, row.pk)
        for name, spec in specs(admin).items()
        if allows(admin, request, spec) and spec.offered(row)
    ]


def _button(url: str, spec: ReasonAction, pk: Any) -> Button:
    is_post = spec.is_harmless
    return Button(
        url=url if is_post else f"{url}?ids={pk}",
        text=spec.description,
        icon=spec.icon,
        is_dangerous=spec.is_dangerous,
        key=spec.key,
        posts=str(pk) if is_post else "",
    )


def shared_out(found: Sequence[Button]) -> dict[str, Sequence[Button]]:
    """The buttons for the template: of many only the first two, and the others behind *More*."""
    shown = len(found) if len(found) <= MAX_SHOWN else MAX_SHOWN - 1
    return {
        "object_buttons": found,
        "shown_buttons": found[:shown],
        "more_buttons": found[shown:],
    }


def row_button(
    admin: Any, request: HttpRequest, name: str, row: Any, *, back: str = ""
) -> SafeString:
    """An action in a row of a list, which leads `back` to the page: a harmless one as a button
    within the form of the page, another as a link to the page that asks why; empty unless this
    person and the state of the row allow it."""
    spec = specs(admin)[name]
    if not (allows(admin, request, spec) and spec.offered(row)):
        return SafeString()
    asked = {"back": back or request.get_full_path()}
    if not spec.is_harmless:
        url = f"{admin.url('act', name)}?{urlencode({'ids': row.pk, **asked})}"
        return link(url, f"{str(spec.description).rstrip('…')}…", look="cell-button")
    url = f"{admin.url('act', name)}?{urlencode(asked)}"
    return format_html(
        '<button class="cell-button" type="submit" formaction="{}" name="ids" value="{}">{}'
        "</button>",
        url,
        row.pk,
        spec.description,
    )
