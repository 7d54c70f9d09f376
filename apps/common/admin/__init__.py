"""The bases of every admin page of the platform; the theme is chosen in `theme` alone."""

from apps.common.admin.actions import OnceForm, Outcome, ReasonForm, actor_of, reason_action
from apps.common.admin.base import CountFreeMixin, MachineRowAdmin, PlatformModelAdmin
from apps.common.admin.service import ServiceForm, ServiceModelAdmin
from apps.common.admin.versioned import VersionedForm, VersionedModelAdmin

__all__ = [
    "CountFreeMixin",
    "MachineRowAdmin",
    "OnceForm",
    "Outcome",
    "PlatformModelAdmin",
    "ReasonForm",
    "ServiceForm",
    "ServiceModelAdmin",
    "VersionedForm",
    "VersionedModelAdmin",
    "actor_of",
    "reason_action",
]
