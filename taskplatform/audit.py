"""The checks of the audit, and its results as lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.utils.translation import gettext as _

from apps.alerts.services import invariants as alerts
from apps.bulk.services import invariants as bulk
from apps.common.audit import Breach, Checked
from apps.dispatch.services import invariants as dispatch
from apps.flows.services import invariants as flows
from apps.jobs.services import invariants as jobs
from apps.reports.services import invariants as reports
from apps.schedules.services import invariants as schedules

CHECKS = (
    *dispatch.CHECKS,
    *jobs.CHECKS,
    *schedules.CHECKS,
    *flows.CHECKS,
    *bulk.CHECKS,
    *reports.CHECKS,
    *alerts.CHECKS,
)

# People who make API keys configure the platform.
PERMISSION = "access.change_apiclient"


def may_audit(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether this person may run it."""
    may = getattr(user, "has_perm", None)
    return may is not None and may(PERMISSION)


def broken_lines(done: Sequence[Checked]) -> Iterator[Breach | str]:
    """Yield the first breaches of each invariant, each a line, and the number of further ones."""
    for each in done:
        for invariant, breaches, beyond in each.by_invariant():
            yield from breaches
            if beyond:
                words = _("and at least %s more") if each.cut else _("and %s more")
                yield f"{invariant} {each.check.name}: {words % f'{beyond:,}'}"


def summary(done: Sequence[Checked], *, recent: int) -> str:
    """One line: the number of breaches, the invariants, seconds and rows."""
    names = sorted(
        {name for each in done for name in each.check.invariants}, key=lambda n: int(n[1:])
    )
    read = ", ".join(
        each.nothing
        or f"{'the newest ' if each.check.recent else ''}{each.rows:,} {each.check.name}"
        for each in done
    )
    broken = sum(len(each.breaches) for each in done)
    result = f"{broken:,} breaches" if broken else "ok"
    seconds = sum(each.seconds for each in done)
    return f"{result}: {', '.join(names)} checked in {seconds:.1f} s on {read}"


def as_json(done: Sequence[Checked], *, recent: int) -> dict[str, Any]:
    """The results for machines."""
    return {
        "ok": not any(each.breaches for each in done),
        "recent": recent,
        "checks": [_check(each) for each in done],
    }


def _check(each: Checked) -> dict[str, Any]:
    return {
        "name": each.check.name,
        "invariants": list(each.check.invariants),
        "rows": each.rows,
        "recent_only": each.check.recent,
        "seconds": round(each.seconds, 3),
        "breaches": [
            {"invariant": breach.invariant, "subject": breach.subject, "text": breach.text}
            for _, breaches, _ in each.by_invariant()
            for breach in breaches
        ],
        "found": len(each.breaches),
        "more": each.cut or len(each.breaches) > sum(len(b) for _, b, _ in each.by_invariant()),
    }
