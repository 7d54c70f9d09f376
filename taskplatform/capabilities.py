"""What accounts can do, in words: each capability stands for the permissions behind it.

A permission of a role that no capability names fails a test: it needs words here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.access.models import Limited

EXECUTORS, JOB_TYPES = Limited.Side.EXECUTORS, Limited.Side.JOB_TYPES
ANY = frozenset({EXECUTORS, JOB_TYPES})


class Ability(StrEnum):
    """Whether an account can do it."""

    YES = "yes"
    IN_PART = "in part"  # it has some of the permissions
    LIMITED = "limited"  # it has them, but only people without limits can
    NO = "no"

    @property
    def is_given(self) -> bool:
        return self in (Ability.YES, Ability.IN_PART)


@dataclass(frozen=True)
class Capability:
    """What one can do with all of the `permissions`; without any, only superusers can.

    They are worth nothing without those of `needs`, nor to people limited on a side of `closed_to`.
    """

    title: str | Promise
    permissions: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    closed_to: frozenset[str] = frozenset()

    @property
    def limit_note(self) -> str | Promise:
        """Which people with limits cannot do it, whatever their permissions."""
        if not self.closed_to:
            return ""
        if self.closed_to == ANY:
            return _("not with limits")
        return _("not with limits to executors")

    def state(self, held: frozenset[str], limits: Collection[str] = ()) -> Ability:
        """For an account with these permissions that is limited on these sides."""
        has = held.intersection(self.permissions)
        if not has or not held.issuperset(self.needs):
            return Ability.NO
        if not self.closed_to.isdisjoint(limits):
            return Ability.LIMITED
        return Ability.YES if len(has) == len(self.permissions) else Ability.IN_PART


def _edits(app: str, *models: str) -> tuple[str, ...]:
    return tuple(f"{app}.{verb}_{m}" for m in models for verb in ("add", "change", "delete"))


CAPABILITIES = (
    # viewer
    Capability(
        _("See executors, tasks and dispatches"),
        (
            *("dispatch.view_executor", "dispatch.view_membership", "dispatch.view_template"),
            *("dispatch.view_oncetask", "dispatch.view_rotatetask"),
            *("dispatch.view_stock", "dispatch.view_dispatch"),
        ),
    ),
    Capability(
        _("See jobs, job types and workers"),
        (
            *("jobs.view_job", "jobs.view_jobtype", "jobs.view_typestate"),
            *("jobs.view_uniquelock", "jobs.view_worker"),
        ),
    ),
    Capability(
        _("See schedules and bulk runs"),
        ("schedules.view_schedule", "schedules.view_schedulerun", "bulk.view_bulkrun"),
    ),
    Capability(
        _("See reports"),
        ("reports.view_rollup", "reports.view_rollupbucket", "reports.view_errorgroup"),
    ),
    Capability(_("See failures in groups"), ("jobs.view_job",), closed_to=ANY),
    Capability(_("See capacity and governance"), ("reports.view_rollup",), closed_to=ANY),
    Capability(
        _("See the journal and its sinks"), ("journal.view_journalentry", "journal.view_sink")
    ),
    Capability(_("See entries that sinks refused"), ("journal.view_sinkreject",), closed_to=ANY),
    Capability(
        _("See how sweeps and processes run"), ("common.view_sweeplease", "common.view_nodelease")
    ),
    Capability(
        _("See alerts and planned reports"),
        (
            *("alerts.view_alert", "alerts.view_alertrule", "alerts.view_channel"),
            *("alerts.view_delivery", "alerts.view_reportplan"),
        ),
        closed_to=ANY,
    ),
    Capability(_("See API clients"), ("access.view_apiclient",), closed_to=ANY),
    # operator
    Capability(_("Plan, change and delete tasks"), _edits("dispatch", "oncetask", "rotatetask")),
    Capability(
        _("Add and change executors, and the members of groups"),
        ("dispatch.add_executor", "dispatch.change_executor", *_edits("dispatch", "membership")),
    ),
    Capability(_("Release, expire and cancel dispatches"), ("dispatch.operate_dispatch",)),
    Capability(_("Submit jobs"), ("jobs.add_job",)),
    Capability(_("Cancel, retry, run and edit jobs"), ("jobs.operate_job",)),
    Capability(_("Quiet and resume workers"), ("jobs.operate_job",), closed_to=ANY),
    Capability(
        _("Pause and resume job types"),
        ("jobs.operate_jobtype",),
        closed_to=frozenset({EXECUTORS}),
    ),
    Capability(_("Plan, change and delete schedules"), _edits("schedules", "schedule")),
    Capability(_("Snooze alerts"), ("alerts.snooze_alert",), closed_to=ANY),
    Capability(
        _("Plan reports that are sent regularly"), _edits("alerts", "reportplan"), closed_to=ANY
    ),
    Capability(_("Share views of lists"), ("common.share_savedview",)),
    # configurer
    Capability(
        _("See and search params, contexts and results"),
        (
            *("dispatch.view_payload", "jobs.view_payload"),
            *("schedules.view_payload", "journal.view_payload"),
        ),
    ),
    Capability(_("Mark jobs done and cancel them by force"), ("jobs.override_job",)),
    Capability(
        _("Add, change and delete templates"),
        _edits("dispatch", "template"),
        closed_to=ANY,
    ),
    Capability(_("Delete executors"), ("dispatch.delete_executor",)),
    Capability(_("Add, change and delete job types"), _edits("jobs", "jobtype"), closed_to=ANY),
    Capability(
        _("Make, change and revoke API keys"),
        ("access.add_apiclient", "access.change_apiclient"),
        closed_to=ANY,
    ),
    Capability(_("Run the audit"), ("access.change_apiclient",), closed_to=ANY),
    Capability(
        _("Change alert rules and channels"),
        _edits("alerts", "alertrule", "channel"),
        closed_to=ANY,
    ),
    Capability(_("Pause and resume sinks"), ("journal.change_sink",), closed_to=ANY),
    # superuser, and whom they give the permissions on accounts
    Capability(
        _("See accounts and their limits"),
        ("access.view_limited", "dispatch.view_operatorscope", "jobs.view_jobscope"),
        needs=("auth.view_user",),
    ),
    Capability(_("Make, change and delete accounts"), _edits("auth", "user")),
    Capability(
        _("Limit people to executors and job types"),
        (*_edits("dispatch", "operatorscope"), *_edits("jobs", "jobscope")),
        needs=("auth.change_user",),
        closed_to=ANY,
    ),
    Capability(_("Hand out roles and permissions, and unlock sign-ins")),
)
NAMED = frozenset(name for each in CAPABILITIES for name in (*each.permissions, *each.needs))
