"""What rows are called, as sentences of Django and of our own have it."""

from __future__ import annotations

from django.utils.functional import Promise, lazy
from django.utils.translation import get_language


def _parted(name: str | Promise) -> str:
    text = str(name)
    is_latin = text[:1].isascii() and text[:1].isalnum()
    return f" {text}" if is_latin and (get_language() or "").startswith("zh") else text


# The name of a model. Where it begins with Latin letters in Chinese, a blank parts it from the word
# before it: 添加 API 密钥, beside 添加任务. Sentences have no blank there, as most names need
# none.
noun = lazy(_parted, str)
