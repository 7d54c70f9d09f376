"""The capabilities of accounts, in words: each stands for the permissions behind it, and says from
which role on people have them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.access.models import Limited

EXECUTORS, JOB_TYPES = Limited.Side.EXECUTORS, Limited.Side.JOB_TYPES
ANY = frozenset({EXECUTORS, JOB_TYPES})
# Each role may what those before it may. What is from no role on is for superusers, and for whom
# they give the permissions.
_LADDER = VIEWER, OPERATOR, CONFIGURER = ("viewer", "operator", "configurer")
NO_ROLE = ""


class Ability(StrEnum):
    """Whether an account has a capability."""

    YES = "yes"
    IN_PART = "in part"  # it has some of the permissions
    LIMITED = "limited"  # it has them, but only people without limits can
    NO = "no"

    @property
    def is_given(self) -> bool:
        return self in (Ability.YES, Ability.IN_PART)


@dataclass(frozen=True)
class Capability:
    """An ability that takes all of the `permissions`, which `from_role` and the roles above it
    have; without any, only superusers have it.

    Nobody has it without the permissions in `needs`, nor when limited on a side of `closed_to`.
    """

    from_role: str
    title: str | Promise
    permissions: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    closed_to: frozenset[str] = frozenset()

    @property
    def limit_note(self) -> str | Promise:
        """The people with limits who do not have it, whatever their permissions; "" for none."""
        if not self.closed_to:
            return ""
        if self.closed_to == ANY:
            return _("not with limits")
        return _("not with limits to people")

    def state(self, held: frozenset[str], limits: Collection[str] = ()) -> Ability:
        """Whether an account with these permissions has it, if limited on these sides."""
        has = held.intersection(self.permissions)
        if not has or not held.issuperset(self.needs):
            return Ability.NO
        if not self.closed_to.isdisjoint(limits):
            return Ability.LIMITED
        return Ability.YES if len(has) == len(self.permissions) else Ability.IN_PART


def _edits(app: str, *models: str) -> tuple[str, ...]:
    return tuple(f"{app}.{verb}_{m}" for m in models for verb in ("add", "change", "delete"))


CAPABILITIES = (
    Capability(
        VIEWER,
        _("See people, tasks and dispatches"),
        (
            *("dispatch.view_executor", "dispatch.view_membership", "dispatch.view_template"),
            *("dispatch.view_oncetask", "dispatch.view_rotatetask"),
            *("dispatch.view_stock", "dispatch.view_dispatch"),
        ),
    ),
    Capability(
        VIEWER,
        _("See jobs, job types and workers"),
        (
            *("jobs.view_job", "jobs.view_jobtype", "jobs.view_typestate"),
            *("jobs.view_uniquelock", "jobs.view_worker"),
        ),
    ),
    Capability(
        VIEWER,
        _("See schedules and bulk runs"),
        ("schedules.view_schedule", "schedules.view_schedulerun", "bulk.view_bulkrun"),
    ),
    Capability(VIEWER, _("See flows and their runs"), ("flows.view_flow", "flows.view_flowrun")),
    Capability(
        VIEWER,
        _("See reports"),
        ("reports.view_rollup", "reports.view_rollupbucket", "reports.view_errorgroup"),
    ),
    Capability(VIEWER, _("See failures in groups"), ("jobs.view_job",), closed_to=ANY),
    Capability(VIEWER, _("See capacity and governance"), ("reports.view_rollup",), closed_to=ANY),
    Capability(
        VIEWER,
        _("See the journal and its sinks"),
        ("journal.view_journalentry", "journal.view_sink"),
    ),
    Capability(
        VIEWER, _("See entries that sinks refused"), ("journal.view_sinkreject",), closed_to=ANY
    ),
    Capability(
        VIEWER,
        _("See how sweeps and processes run"),
        ("common.view_sweeplease", "common.view_nodelease"),
    ),
    Capability(
        VIEWER,
        _("See alerts and planned reports"),
        (
            *("alerts.view_alert", "alerts.view_alertrule", "alerts.view_channel"),
            *("alerts.view_delivery", "alerts.view_reportplan"),
        ),
        closed_to=ANY,
    ),
    Capability(VIEWER, _("See API keys"), ("access.view_apiclient",), closed_to=ANY),
    Capability(
        OPERATOR, _("Plan, change and delete tasks"), _edits("dispatch", "oncetask", "rotatetask")
    ),
    Capability(
        OPERATOR,
        _("Add and change people, and the members of groups"),
        ("dispatch.add_executor", "dispatch.change_executor", *_edits("dispatch", "membership")),
    ),
    Capability(
        OPERATOR,
        _("See and search params, contexts and results"),
        (
            *("dispatch.view_payload", "jobs.view_payload"),
            *("schedules.view_payload", "flows.view_payload", "journal.view_payload"),
        ),
    ),
    Capability(
        OPERATOR, _("Release, expire and cancel dispatches"), ("dispatch.operate_dispatch",)
    ),
    Capability(OPERATOR, _("Submit jobs"), ("jobs.add_job",)),
    Capability(OPERATOR, _("Cancel, retry, run and edit jobs"), ("jobs.operate_job",)),
    Capability(OPERATOR, _("Quiet and resume workers"), ("jobs.operate_job",), closed_to=ANY),
    Capability(
        OPERATOR,
        _("Pause and resume job types"),
        ("jobs.operate_jobtype",),
        closed_to=frozenset({EXECUTORS}),
    ),
    Capability(OPERATOR, _("Plan, change and delete schedules"), _edits("schedules", "schedule")),
    Capability(
        OPERATOR,
        _("Start flows, and pause, stop and retry their runs"),
        ("flows.start_flow", "flows.operate_flowrun"),
    ),
    Capability(OPERATOR, _("Snooze alerts"), ("alerts.snooze_alert",), closed_to=ANY),
    Capability(
        OPERATOR,
        _("Plan reports that are sent regularly"),
        _edits("alerts", "reportplan"),
        closed_to=ANY,
    ),
    Capability(OPERATOR, _("Share views of lists"), ("common.share_savedview",)),
    Capability(CONFIGURER, _("Mark jobs done and cancel them by force"), ("jobs.override_job",)),
    Capability(
        CONFIGURER,
        _("Skip and finish steps of flows, and stop runs by force"),
        ("flows.override_flow",),
    ),
    Capability(
        CONFIGURER, _("Add, change and retire flows"), ("flows.add_flow", "flows.change_flow")
    ),
    Capability(
        CONFIGURER,
        _("Add, change and delete templates"),
        _edits("dispatch", "template"),
        closed_to=ANY,
    ),
    Capability(CONFIGURER, _("Delete people"), ("dispatch.delete_executor",)),
    Capability(
        CONFIGURER, _("Add, change and delete job types"), _edits("jobs", "jobtype"), closed_to=ANY
    ),
    Capability(
        CONFIGURER,
        _("Make, change and revoke API keys"),
        ("access.add_apiclient", "access.change_apiclient"),
        closed_to=ANY,
    ),
    Capability(CONFIGURER, _("Run the audit"), ("access.change_apiclient",), closed_to=ANY),
    Capability(
        CONFIGURER,
        _("Change alert rules and channels"),
        _edits("alerts", "alertrule", "channel"),
        closed_to=ANY,
    ),
    Capability(CONFIGURER, _("Pause and resume sinks"), ("journal.change_sink",), closed_to=ANY),
    Capability(
        VIEWER,
        _("See accounts and their limits"),
        ("access.view_limited", "dispatch.view_operatorscope", "jobs.view_jobscope"),
        needs=("auth.view_user",),
    ),
    Capability(NO_ROLE, _("Make, change and delete accounts"), _edits("auth", "user")),
    Capability(
        CONFIGURER,
        _("Limit accounts to people and job types"),
        (*_edits("dispatch", "operatorscope"), *_edits("jobs", "jobscope")),
        needs=("auth.change_user",),
        closed_to=ANY,
    ),
    Capability(NO_ROLE, _("Hand out roles and permissions, and unlock sign-ins")),
)
NAMED = frozenset(name for each in CAPABILITIES for name in (*each.permissions, *each.needs))
# The sides that each permission is closed to; what one capability leaves open, is open.
_CLOSED: dict[str, frozenset[str]] = {}
for _each in CAPABILITIES:
    for _name in _each.permissions:
        _CLOSED[_name] = _CLOSED.get(_name, ANY) & _each.closed_to
# The permissions of each role.
ROLES = {
    role: frozenset(
        name
        for each in CAPABILITIES
        if each.from_role in _LADDER[:place]
        for name in each.permissions
    )
    for place, role in enumerate(_LADDER, 1)
}


def closed_to(permission: str) -> frozenset[str]:
    """The sides on which limits take the permission, or take the sight of its model, so that no
    permission without words leads there."""
    app, _dot, codename = permission.partition(".")
    sight = f"{app}.view_{codename.partition('_')[2]}"
    nowhere = frozenset[str]()
    return _CLOSED.get(permission, nowhere) | _CLOSED.get(sight, nowhere)
