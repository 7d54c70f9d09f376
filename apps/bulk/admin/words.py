"""Bulk runs in words."""

from __future__ import annotations

from django.utils.text import capfirst

from apps.bulk.services.targets import TARGETS
from apps.common.admin.display import duration_of, translate
from apps.common.verbs import Undo


def named(kind: str, verb: str) -> str:
    """`Jobs · Cancel`: what a run does to which rows."""
    target = TARGETS.get(kind)
    rows = capfirst(kind if target is None else target.model._meta.verbose_name_plural or "")
    return f"{rows} · {_of_verb(kind, verb)}"


def _of_verb(kind: str, verb: str) -> str:
    of = TARGETS[kind].verbs if kind in TARGETS else {}
    return translate(of[verb].words if verb in of else Undo.words if verb == Undo.name else verb)


def lasting(seconds: int) -> str:
    """A length of time in a few words."""
    return duration_of(1000 * seconds)
