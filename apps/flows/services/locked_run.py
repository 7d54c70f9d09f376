"""A run whose row is locked, with its steps: every change of a step is an UPDATE that names the
state it was in, and the journal gets what was noted in one INSERT."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from apps.common import clock
from apps.common.rows import update_rows
from apps.flows.models import FlowRun, FlowStep
from apps.flows.rules.labels import step_label
from apps.journal import services as journal
from apps.journal.models import Source

# The event of a step that begins, for the first time or from its start again.
BEGUN = "step_active"


class LockedRun:
    """The run and its steps by name, which are read unless they were just made; by whom and why it
    is changed, and when."""

    def __init__(
        self,
        run: FlowRun,
        *,
        actor: str = "",
        reason: str = "",
        steps: Iterable[FlowStep] | None = None,
    ) -> None:
        self.run = run
        self.actor = actor or "flows"
        self.reason = reason
        self.now = clock.now()
        rows = FlowStep.objects.filter(run=run.pk).defer("result") if steps is None else steps
        self.steps = {row.name: row for row in rows}
        self.entries: list[journal.Entry] = []

    def write(self, row: FlowStep, **columns: Any) -> None:
        """Change the step, which is in the state that was read."""
        guard = {"guard": "state = %s", "parameters": [row.state]}
        if not update_rows(FlowStep, {row.pk: columns}, **guard):  # type: ignore[arg-type]
            raise RuntimeError(f"step {row.pk} is {row.state} no more, under the lock of its run")
        for name, value in columns.items():
            setattr(row, name, value)

    def write_run(self, **columns: Any) -> None:
        """Change the locked run."""
        update_rows(FlowRun, {self.run.pk: columns}, raised=["version"])
        for name, value in columns.items():
            setattr(self.run, name, value)
        self.run.version += 1

    def note(self, event: str, row: FlowStep | None = None, **fields: Any) -> None:
        """Keep an entry of the run, or of a step of it."""
        data = {
            **({"step": row.name} if row is not None else {}),
            **(fields.pop("data", None) or {}),
        }
        fields.setdefault("reason", self.reason)
        entry = journal.Entry(
            at=self.now,
            source=Source.FLOW,
            subject_id=self.run.pk,
            event=event,
            type_or_task=step_label(self.run.flow, row.name) if row else self.run.flow,
            actor=self.actor,
            trace_id=self.run.trace_id,
            data=data or None,
            **fields,
        )
        self.entries.append(entry)

    def write_entries(self) -> None:
        """Write what was noted to the journal."""
        journal.write(self.entries)
        self.entries = []

    def ms_since(self, at: datetime | None) -> int | None:
        """The milliseconds from then until now; None without a time."""
        return None if at is None else max(0, (self.now - at) // timedelta(milliseconds=1))
