"""What the page of a row says of values that somebody has written by SQL in another shape."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest
from django.utils.text import capfirst

from apps.common.admin.display import labelled, translate
from apps.common.shaped import misshapen


def say_misshapen(admin: Any, request: HttpRequest, row: Any) -> None:
    """Warn of each value that this person may see."""
    for field, value in misshapen(row):
        if field.name not in admin.payload_fields or admin.has_payload_permission(request, row):
            said = labelled(capfirst(str(field.verbose_name)), translate(value.why))
            admin.message_user(request, said, messages.WARNING)
