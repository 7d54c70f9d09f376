"""The abilities of accounts and roles, as their pages show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import Permission, User
from django.db.models import Q
from django.utils.translation import gettext as _

from apps.access.models import Limited
from apps.common.admin.display import listed, shown_text
from apps.dispatch.models import OperatorScope
from taskplatform.capabilities import (
    CAPABILITIES,
    EXECUTORS,
    JOB_TYPES,
    NAMED,
    ROLES,
    Ability,
    Capability,
)

Names = list[str] | None


def role_rows() -> list[tuple[Capability, list[bool]]]:
    """Each capability, and whether each of the roles has it."""
    return [
        (each, [each.state(held) is Ability.YES for held in ROLES.values()])
        for each in CAPABILITIES
    ]


def abilities(account: User) -> dict[str, Any]:
    """The variables of the template that lists what the account can and cannot do."""
    if account.is_superuser:
        superuser = _("A superuser can do everything and has no limits.")
        return {"notes": [*_hindrances(account), superuser]}
    held = _permissions_of(account)
    limits: dict[str, Names] = {
        side: Limited.names_of(account, side) for side in (EXECUTORS, JOB_TYPES)
    }
    limited = [side for side, names in limits.items() if names is not None]
    states = [(each.title, each.state(held, limited)) for each in CAPABILITIES]
    can = [(title, state is Ability.IN_PART) for title, state in states if state.is_given]
    cannot = [(title, state is Ability.LIMITED) for title, state in states if not state.is_given]
    return {
        "notes": [*_hindrances(account), *(_warnings(limits) if held else [])],
        "can": can,
        "cannot": cannot,
        "others": shown_text(listed(sorted(held - NAMED))),
        "limits": [
            (_("People and groups:"), _list(OperatorScope.names_of(account))),
            (_("Job types:"), _list(limits[JOB_TYPES])),
        ],
    }


def _permissions_of(account: User) -> frozenset[str]:
    """The permissions of the account and of its roles, also while it is not active."""
    rows = Permission.objects.filter(Q(user=account) | Q(group__user=account))
    names = rows.values_list("content_type__app_label", "codename")
    return frozenset(f"{app}.{codename}" for app, codename in names)


def _hindrances(account: User) -> list[str]:
    """Why the account can do nothing at present, whatever its permissions."""
    found = []
    if not account.is_active:
        found.append(_("The account is not active: it cannot sign in, whatever it may do."))
    elif not account.is_staff:
        found.append(_("The account does not sign in to these pages, whatever it may do."))
    if not account.has_usable_password():
        found.append(_("The account has no password: it cannot sign in until it is given one."))
    return found


def _warnings(limits: Mapping[str, Names]) -> list[str]:
    """Surprises in what the account sees: all of a side without a limit, nothing of a side whose
    limit names nothing."""
    executors, types = limits[EXECUTORS], limits[JOB_TYPES]
    if executors is None and types is None:
        return [_("Sees all people and all jobs: it has no limits.")]
    found = []
    if executors is None:
        found.append(_("Sees no people, tasks or dispatches: limited to job types alone."))
    if types is None:
        found.append(
            _(
                "Sees all jobs of its people and all jobs without a user: it has no limit to "
                "job types."
            )
        )
    if executors == []:
        found.append(_("Sees nobody: its limit to people names none."))
    if types == []:
        found.append(_("Sees no jobs: its limit to job types names none."))
    return found


def _list(names: Names) -> str:
    if names is None:
        return _("all")
    return shown_text(listed(sorted(names))) or _("none")
