"""Pages in the frame of the admin that are not those of a model."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.template.response import TemplateResponse


def framed(
    request: HttpRequest, template: str, *, status: int = 200, **context: Any
) -> TemplateResponse:
    """Draw the template, which needs a `title`, in the frame of the admin."""
    request.current_app = admin.site.name
    frame = {**admin.site.each_context(request), "subtitle": None}
    return TemplateResponse(request, template, frame | context, status=status)
