"""The number of a form that acts."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from apps.common.admin.sent import SENT
from apps.common.sent_forms import new_number

register = template.Library()


@register.simple_tag
def sent_once() -> SafeString:
    """The hidden field by which the form acts once, however often it is sent."""
    return format_html('<input type="hidden" name="{}" value="{}">', SENT, new_number())
