"""The bases of every admin page of the platform, on unfold."""

from apps.common.admin.actions import ActionResult, OnceForm, ReasonForm, actor_of, reason_action
from apps.common.admin.base import CountFreeMixin, MachineRowAdmin, PlatformModelAdmin
from apps.common.admin.service import ServiceForm, ServiceModelAdmin
from apps.common.admin.versioned import VersionedForm, VersionedModelAdmin

__all__ = [
    "ActionResult",
    "CountFreeMixin",
    "MachineRowAdmin",
    "OnceForm",
    "PlatformModelAdmin",
    "ReasonForm",
    "ServiceForm",
    "ServiceModelAdmin",
    "VersionedForm",
    "VersionedModelAdmin",
    "actor_of",
    "reason_action",
]
