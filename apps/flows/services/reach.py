"""What a definition reaches, and who may have it reach that: a saved flow is no way around the
binding of a key."""

from __future__ import annotations

from apps.dispatch.models import Executor
from apps.flows.rules.definition import Definition
from apps.jobs.models import Bounds


def is_within(definition: Definition, bounds: Bounds) -> bool:
    """Whether all job types and executors of the definition are within the bounds.

    A limit to one side leaves nothing of the other.
    """
    if bounds.are_open:
        return True
    if not definition.types <= {*(bounds.types or ())}:
        return False
    if not definition.executors:
        return True
    if bounds.users is None:
        return False
    found = Executor.objects.within(bounds.users.names).filter(name__in=definition.executors)
    return found.count() == len(definition.executors)
