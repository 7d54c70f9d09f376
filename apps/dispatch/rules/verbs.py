"""What is done to many dispatches at once, and why one in some state is left out."""

from __future__ import annotations

from apps.common.messages import Message
from apps.dispatch.rules import policy

RELEASE, EXPIRE, CANCEL = "release", "expire", "cancel"
VERBS = (RELEASE, EXPIRE, CANCEL)
_ENDS = {RELEASE: policy.RELEASED, EXPIRE: policy.EXPIRED, CANCEL: policy.CANCELLED}


def why_not(verb: str, state: str) -> Message | None:
    """Why a dispatch in this state is left out; None when the verb ends it."""
    return None if state == policy.OPEN else Message(state)


def sample(verb: str) -> Message:
    """What becomes of it."""
    return Message(_ENDS[verb])
