"""Sentences in templates, one after another."""

from __future__ import annotations

from django import template
from django.utils.translation import get_language

register = template.Library()


@register.simple_tag
def gap() -> str:
    """The blank between two sentences; Chinese has none there."""
    return "" if (get_language() or "").startswith("zh") else " "
