"""Who may see reports."""

from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

PERMISSION = "reports.view_rollup"


def may_report(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether reports are this person's to see."""
    may = getattr(user, "has_perm", None)
    return may is not None and bool(may(PERMISSION))
