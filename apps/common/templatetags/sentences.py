"""Sentences, and words of a list, in templates, one after another."""

from __future__ import annotations

from django import template
from django.utils.translation import get_language

from apps.common.admin.display import listed, parted

register = template.Library()


@register.simple_tag
def gap() -> str:
    """The blank between two sentences; Chinese has none there."""
    return "" if (get_language() or "").startswith("zh") else " "


@register.simple_tag
def comma() -> str:
    """What stands between the words of a list."""
    return listed(("", ""))


@register.simple_tag
def semicolon() -> str:
    """What stands between longer parts."""
    return parted(("", ""))
