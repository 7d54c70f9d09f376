"""What pages are made of: the frame of the admin, titled parts, fields in rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.functional import Promise
from django.utils.safestring import SafeString


@dataclass(frozen=True)
class OtherForm:
    """A form beside that of the page, because forms cannot be nested."""

    id: str
    url: str = ""
    method: str = "get"


@dataclass(frozen=True)
class Panel:
    """A titled part of the page of a row; inputs in the body name the `form` that they are of. By
    its `id` a page that renews itself knows it again when others come before it."""

    title: str | Promise
    body: SafeString
    form: OtherForm | None = None
    id: str = ""
    # What people look at rarely.
    is_folded: bool = False


def in_pairs(fields: Sequence[Any], *, alone: Collection[Any] = ()) -> list[Any]:
    """The fields two in a row where there is room, those of `alone` in a row of their own."""
    rows: list[Any] = []
    for field in fields:
        last = rows[-1] if rows else ()
        if field in alone:
            rows.append(field)
        elif isinstance(last, tuple) and len(last) == 1:
            rows[-1] = (*last, field)
        else:
            rows.append((field,))
    return rows


def framed(
    request: HttpRequest, template: str, *, status: int = 200, **context: Any
) -> TemplateResponse:
    """Draw the template, which needs a `title`, in the frame of the admin."""
    request.current_app = admin.site.name
    frame = {**admin.site.each_context(request), "subtitle": None}
    return TemplateResponse(request, template, frame | context, status=status)
