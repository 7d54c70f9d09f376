"""The reach of definitions, and who may have them reach so far: a saved flow is no way around the
binding of a key or the limits of a person."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from apps.dispatch.models import Executor
from apps.flows.rules.definition import Definition
from apps.jobs.handlers import registry
from apps.jobs.models import Bounds, JobType


@dataclass(frozen=True, slots=True)
class Sides:
    """The job types within some bounds, and the people and groups, whose members are, too; None for
    all.

    A key that is bound to one side reaches nothing of the other. Jobs of flows are nobody's, so a
    person who is limited to people alone sees them. `further` are the types whose jobs start what
    lies beyond any limits, such as other flows.
    """

    types: Collection[str] | None
    executors: Collection[str] | None
    further: frozenset[str] = frozenset()

    @classmethod
    def of(cls, bounds: Bounds) -> Sides:
        if bounds.are_open:
            return cls(None, None)
        types = bounds.types
        if types is None and not bounds.takes_nobodys:
            types = ()
        further = JobType.objects.filter(handler__in=registry.further())
        return cls(
            types,
            bounds.executors,
            frozenset(further.values_list("name", flat=True)),
        )

    def has_types(self, names: Collection[str]) -> bool:
        """Whether all these job types are within."""
        wanted = {*names}
        return (self.types is None or wanted <= {*self.types}) and not wanted & self.further

    def executors_among(self, names: Collection[str]) -> set[str]:
        """Return the names that belong to people and groups within."""
        rows = Executor.objects.filter(name__in=names)
        if self.executors is not None:
            # A subquery: MariaDB would else join the members of groups to all rows.
            rows = rows.filter(pk__in=Executor.objects.within(self.executors))
        return {*rows.values_list("name", flat=True)} if names else set()


def are_within(definitions: Collection[Definition], bounds: Bounds) -> list[bool]:
    """Say of each definition whether all its job types and executors are within the bounds."""
    if bounds.are_open:
        return [True] * len(definitions)
    sides = Sides.of(bounds)
    known = sides.executors_among({name for each in definitions for name in each.executors})
    # Nobody knows how far one reaches that cannot be read.
    return [
        bool(each.steps) and sides.has_types(each.types) and each.executors <= known
        for each in definitions
    ]


def is_within(definition: Definition, bounds: Bounds) -> bool:
    """Whether all job types and executors of the definition are within the bounds."""
    return are_within([definition], bounds)[0]


def has_jobs_within(step_type: str, bounds: Bounds) -> bool:
    """Whether the jobs of a step of this type, which are nobody's, are within the bounds."""
    return (bounds.types is None or step_type in bounds.types) and (
        bounds.users is None or bounds.takes_nobodys
    )
