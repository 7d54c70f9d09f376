"""The verbs for dispatches, and the reasons why one in some state is left out."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.verbs import Values, Verb, by_name
from apps.dispatch.rules import policy

RELEASE, EXPIRE, CANCEL = "release", "expire", "cancel"


class DispatchVerb(Verb):
    """A verb that ends an open dispatch."""

    permission = "dispatch.operate_dispatch"
    columns = ("state",)
    is_undone = False
    undo = _("People may have been told, or have other work by now; hand it out again instead.")
    becomes: ClassVar[str]

    def why_not(self, facts: Values, params: Values, now: datetime) -> Message | None:
        state = facts["state"]
        return None if state == policy.OPEN else Message(state)

    def sample(self, facts: Values, params: Values) -> Message:
        return Message(self.becomes)


class Release(DispatchVerb):
    name, words, becomes = RELEASE, _("Release"), policy.RELEASED
    event = "released"


class Expire(DispatchVerb):
    name, words, becomes = EXPIRE, _("Expire"), policy.EXPIRED
    event = "expired"


class Cancel(DispatchVerb):
    name, words, becomes = CANCEL, _("Cancel"), policy.CANCELLED
    event = "cancelled"
    is_dangerous = True


VERBS = by_name(Release(), Expire(), Cancel())
