"""The right of a person to see reports, governance, failures and problems."""

from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from apps.jobs.models import bounds_of

User = AbstractBaseUser | AnonymousUser


def may_report(user: User) -> bool:
    """Whether this person may see reports."""
    return _has(user, "reports.view_rollup")


def may_see_flows(user: User) -> bool:
    """Whether this person may see the figures of flows, which have parts of many: whoever sees runs
    and has no limits."""
    return _has(user, "flows.view_flowrun") and bounds_of(user).are_open


def may_govern(user: User) -> bool:
    """Whether this person may see how the platform grows and what goes wrong with it: everybody who
    may see the reports of all."""
    return may_report(user) and bounds_of(user).are_open


def may_see_failures(user: User) -> bool:
    """Whether this person may see failures: everybody who sees all jobs may, as they are counted
    together."""
    return _has(user, "jobs.view_job") and bounds_of(user).are_open


def may_see_problems(user: User) -> bool:
    """Whether this person has the page of problems, with their part of it: everybody who sees
    jobs, dispatches or alerts."""
    needed = ("jobs.view_job", "dispatch.view_dispatch", "alerts.view_alert")
    return any(_has(user, each) for each in needed)


def _has(user: User, permission: str) -> bool:
    may = getattr(user, "has_perm", None)
    return may is not None and bool(may(permission))
