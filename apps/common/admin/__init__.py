"""The bases of every admin page of the platform, on unfold."""

from apps.common.admin.actions import ActionResult, OnceForm, ReasonAction, ReasonForm, actor_of
from apps.common.admin.base import PlatformModelAdmin
from apps.common.admin.machine_rows import MachineRowAdmin
from apps.common.admin.service import ServiceForm, ServiceModelAdmin

__all__ = [
    "ActionResult",
    "MachineRowAdmin",
    "OnceForm",
    "PlatformModelAdmin",
    "ReasonAction",
    "ReasonForm",
    "ServiceForm",
    "ServiceModelAdmin",
    "actor_of",
]
