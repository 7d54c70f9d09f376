"""Once tasks and rotations as CSV: new ones, and edits of existing ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from datetime import datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from django.db import models
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext

from apps.common import clock, sent_forms
from apps.common.admin.actions import actor_of
from apps.common.admin.csv_pages import CHANGED, NEW, UNCHANGED, CsvPages, CsvResource
from apps.common.admin.csv_text import plain_cell, read_cell
from apps.common.admin.display import parted, shown_text
from apps.common.admin.json_text import read_json
from apps.common.errors import FieldError, Invalid, Mistakes, PlatformError
from apps.common.json_rules import legible
from apps.common.masking import merge, redact
from apps.common.messages import wire_time
from apps.common.readers import read_instant, read_integer, read_number
from apps.common.zones import zone_names
from apps.dispatch.models import Executor, OnceTask, RotateTask, Template
from apps.dispatch.services import tasks, templates
from apps.dispatch.services.validation import validate
from apps.journal import services as journal
from apps.journal.admin.words import name_of, value_of
from apps.journal.models import Source
from apps.journal.services.edit import Revision, require_version, take_version

RULE_PARTS = ("every_minutes", "every_days", "at", "cron")
RULE_NUMBERS = {"every_minutes", "every_days"}
NONE = "none"
MAX_CELL = 60
# These columns come first; the other fields of the task follow in the order of the model.
FIRST = ("title", "executor", "status", "start_at", "end_at")
LAST = ("template", "params")


class TaskResource(CsvResource):
    """A row with an id is an edit of that task, and one without it is a new task.

    A cell that is empty, missing or as it was exported leaves its field as it is. `rows` and
    `executors` are what the operator may see; `shows_params` is off for operators without the
    permission. With the same `once` rows are imported one time only.
    """

    row_names = ("title", "id")

    def __init__(
        self,
        model: type[OnceTask] | type[RotateTask],
        *,
        actor: str,
        rows: QuerySet[Any],
        executors: QuerySet[Executor],
        shows_params: bool,
        once: int | None = None,
    ) -> None:
        self.model = model
        rule = (*RULE_PARTS, "time_zone", "misfire", "misfire_limit") if self._is_rotation else ()
        placed = {*FIRST, *LAST, *rule, "rule"}
        others = [name for name in model.editable if name not in placed]
        self.columns = ("id", "version", *FIRST, *rule, *others, *LAST)
        self.actor = actor
        self.rows = rows
        self.executors = executors
        self.shows_params = shows_params
        self.once = once
        self.now = clock.now()
        self._found: dict[int, Any] = {}
        self._named: set[int] = set()
        self._executors: dict[str, Executor] = {}
        self._templates: dict[str, Template] = {}
        self._new: list[Any] = []
        self._changed: list[tuple[Any, dict[str, Any]]] = []
        # The active rotations of each executor, with those of the rows before.
        self._active: dict[int, int] = {}
        self._given_more: set[int] = set()
        self._zone: tzinfo = timezone.get_current_timezone()

    @property
    def _is_rotation(self) -> bool:
        return self.model is RotateTask

    # --- in ---------------------------------------------------------------------------------------
    def prepare(self, rows: Sequence[Mapping[str, str]]) -> None:
        numbers = [read_number(row["id"]) for row in rows if row.get("id")]
        self._found = self.rows.in_bulk([number for number in numbers if number is not None])
        named = {row["executor"] for row in rows if row.get("executor")}
        executors = self.executors.filter(name__in=named)
        self._executors = {executor.name: executor for executor in executors}
        if self._is_rotation:
            concerned = {executor.pk for executor in self._executors.values()}
            concerned.update(task.executor_id for task in self._found.values())
            self._active = tasks.active_rotations(concerned)

    def _find(self, text: str) -> Any:
        number = read_number(text)
        task = None if number is None else self._found.get(number)
        if task is None:
            raise Invalid.field(
                "id",
                gettext("There is no %(what)s %(id)s; leave the cell empty for a new one.")
                % {"what": self.model._meta.verbose_name, "id": repr(text[:40])},
            )
        if task.pk in self._named:
            raise Invalid.field("id", gettext("An earlier row is about the same task."))
        self._named.add(task.pk)
        return task

    def check(self, row: Mapping[str, str]) -> tuple[str, str]:
        if not row.get("id"):
            self._new.append(self._draft(row))
            return NEW, ""
        revision = self._altered(self._find(row["id"]), row)
        if revision is None:
            return UNCHANGED, ""
        return CHANGED, _difference(revision)

    def save(self) -> None:
        # Pulls of the executors wait from the first task that is written for them.
        self._require_first()
        by: Any = {"now": self.now, "actor": self.actor}
        edits = [tasks.add(copy(task), **by) for task in self._new]
        for task, changes in self._changed:
            edit = tasks.change(take_version(task, task.version), changes, locks=False, **by)
            edits += [] if edit is None else [edit]
        if self._is_rotation:
            tasks.lock_executors(self._given_more)
            tasks.require_limits(self._given_more)
        tasks.publish(edits)

    def _require_first(self) -> None:
        """SentBefore when this import was made before: it would create its new tasks twice."""
        if self.once is None or not (self._new or self._changed):
            return
        sent_forms.take(self.once)
        entry = journal.Entry(
            at=self.now,
            source=Source.PLAN,
            subject_id=self.once,
            event="tasks_imported",
            type_or_task=self.model.source,
            actor=self.actor,
            data={"rows": len(self._new) + len(self._changed)},
        )
        journal.write([entry])

    def _draft(self, row: Mapping[str, str]) -> Any:
        mistakes = Mistakes()
        for name in ("title", "executor"):
            if not row.get(name):
                message = gettext("A new task needs a cell in the column %s.") % name
                mistakes.add(Invalid.field(name, message))
        fields = self._fields({name for name, text in row.items() if text}, row, None, mistakes)
        task: Any = tasks.draft(self.model, fields, now=self.now, actor=self.actor, limits=False)
        self._count(task, None)
        self._given_more.add(task.executor_id)
        return task

    def _count(self, task: Any, was: int | None) -> None:
        """Count an active rotation, which was one of the executor `was`; LimitReached when it is
        one too many, with those of the rows before."""
        of = task.executor_id if task.status == tasks.ACTIVE else None
        if not self._is_rotation or of == was:
            return
        if of is not None:
            tasks.require_room(task.executor, self._active[of])
            self._active[of] += 1
        if was is not None:
            self._active[was] -= 1

    def _altered(self, task: Any, row: Mapping[str, str]) -> Revision[Any] | None:
        if row.get("params") and not self.shows_params:
            raise Invalid.field(
                "params", gettext("You may not see the params of this task; leave the cell empty.")
            )
        was = {name: read_cell(plain_cell(value)) for name, value in self.cells(task).items()}
        fields = {name for name, text in row.items() if name in was and text != was[name]}
        if not any(row.get(part) for part in RULE_PARTS):
            fields -= {*RULE_PARTS}
        fields = {name for name in fields if row[name] or name in RULE_PARTS} - {"id", "version"}
        if not fields:
            return None
        mistakes, version = Mistakes(), task.version
        with mistakes:
            version = _number(row["version"], "version") if row.get("version") else task.version
        require_version(task, version)
        current = copy(task)
        with self._hidden_params():
            changes = self._fields(fields, row, current, mistakes)
        with self._hidden_params():
            revision = tasks.alter(current, changes, now=self.now, limits=False)
        if not revision.changed:
            return None
        self._count(current, task.executor_id if task.status == tasks.ACTIVE else None)
        if not {"executor", "status"}.isdisjoint(changes):
            self._given_more.add(current.executor_id)
        self._changed.append((task, changes))
        return revision

    @contextmanager
    def _hidden_params(self) -> Iterator[None]:
        """Hide messages about stored params from operators who may not see these."""
        try:
            yield
        except PlatformError as error:
            others = [each for each in error.errors if not each.field.startswith("params")]
            if self.shows_params or len(others) == len(error.errors):
                raise
            hidden = gettext(
                "The stored params do not fit this template; ask somebody who sees them."
            )
            others.append(FieldError("template", "invalid", hidden))
            raise Invalid(others[0].message, errors=others) from error

    def _fields(
        self, names: set[str], row: Mapping[str, str], current: Any, mistakes: Mistakes
    ) -> dict[str, Any]:
        """The values of the named cells; the parts of a rule are one value together.

        Invalid, when one cannot be read or there are mistakes already, with all of the row.
        """
        plain = names - {"id", "version", *RULE_PARTS}
        fields = {}
        self._zone = self._zone_of(row, current)
        for name in sorted(plain):
            with mistakes:
                fields[name] = self._value(name, row[name], current)
        if self._is_rotation and (current is None or names & {*RULE_PARTS}):
            stored = {} if current is None else current.rule
            given = {part: row.get(part, stored.get(part)) for part in RULE_PARTS}
            with mistakes:
                fields["rule"] = {
                    part: _number(str(text), f"rule.{part}") if part in RULE_NUMBERS else text
                    for part, text in given.items()
                    if text not in ("", None)
                }
        if mistakes:
            with mistakes:
                validate(self.model, fields, current=current)
            mistakes.raise_all()
        return fields

    def _value(self, name: str, text: str, current: Any) -> Any:
        column = self.model._meta.get_field(name)
        if column.null and text.lower() == NONE:
            return None
        if name == "executor":
            return self._executor(text)
        if name == "template":
            return self._template(text)
        if name == "params":
            return _params(text, None if current is None else current.params)
        if isinstance(column, models.IntegerField):
            return _number(text, name)
        if isinstance(column, models.DateTimeField):
            return self._instant(name, text)
        return text

    def _zone_of(self, row: Mapping[str, str], current: Any) -> tzinfo:
        """The zone of times without an offset: that of the rotation, of the page for once tasks."""
        if not self._is_rotation:
            return timezone.get_current_timezone()
        chosen = row.get("time_zone") or (current or RotateTask()).time_zone
        # A name that is none has a message of its own.
        return ZoneInfo(chosen) if chosen in zone_names() else timezone.get_current_timezone()

    def _instant(self, name: str, text: str) -> datetime:
        try:
            return read_instant(text, self._zone)
        except Invalid as error:
            raise Invalid.field(name, error.detail) from error

    def _executor(self, name: str) -> Executor:
        if name not in self._executors:
            raise Invalid.field(
                "executor", gettext("There is no person or group %s.") % repr(name[:80])
            )
        return self._executors[name]

    def _template(self, text: str) -> Template:
        """`shelf v2` is that version, and `shelf` the newest one."""
        if text not in self._templates:
            named = re.fullmatch(r"(\S+) v([0-9]{1,9})", text)
            if named is None:
                self._templates[text] = templates.find_usable(text)
            else:
                found = Template.objects.filter(name=named[1], version=int(named[2])).first()
                if found is None:
                    raise Invalid.field(
                        "template", gettext("There is no template %s.") % repr(text[:120])
                    )
                self._templates[text] = found
        return self._templates[text]

    # --- out --------------------------------------------------------------------------------------
    def headers(self) -> Sequence[str]:
        return [name for name in self.columns if self.shows_params or name != "params"]

    def cells(self, instance: Any) -> dict[str, Any]:
        cells = {name: getattr(instance, name) for name in ("id", "version", *self.model.editable)}
        if self._is_rotation:
            rule = cells.pop("rule")
            parts = rule if isinstance(rule, dict) else {}
            cells |= {part: parts.get(part) for part in RULE_PARTS}
        for name, value in cells.items():
            if isinstance(value, datetime):
                cells[name] = wire_time(value)
        cells["executor"] = instance.executor.name
        cells["template"] = None if instance.template is None else str(instance.template)
        if instance.dispatch_times is None:
            # A new task from a row without it would have a limit of one.
            cells["dispatch_times"] = NONE
        params = cells.pop("params")
        if self.shows_params:
            cells["params"] = legible(redact(params))
        return cells


def _difference(revision: Revision[Any]) -> str:
    """`priority 0 → 5` for each changed field; of params only their name."""
    parts, was = [], revision.before
    for name, after in revision.after.items():
        before = was[name]
        if isinstance(after, dict):
            parts.append(name_of(name))
            continue
        values = (shown_text(value_of(name, value), limit=MAX_CELL) for value in (before, after))
        parts.append(f"{name_of(name)} {' → '.join(values)}")
    return parted(parts)


def _number(text: str, field: str) -> int:
    number = read_integer(text)
    if number is None:
        raise Invalid.field(
            field, gettext("%(text)s is not a whole number.") % {"text": repr(text[:40])}
        )
    return number


def _params(text: str, stored: Any) -> dict[str, Any]:
    params: Any = read_json(text)
    if not isinstance(params, dict):
        raise Invalid.field("params", gettext("Write a JSON object: {…}."))
    merged: dict[str, Any] = merge(params, stored, field="params")
    return merged


class TaskCsvPages(CsvPages):
    """Import and export of tasks."""

    needed_columns = ()

    def import_title(self) -> str:
        is_rotation = self.admin.model is RotateTask
        return gettext("Import repeating tasks") if is_rotation else gettext("Import once tasks")

    def resource(self, request: HttpRequest) -> TaskResource:
        return TaskResource(
            self.admin.model,
            actor=actor_of(request),
            rows=self.with_related(self.admin.get_queryset(request)),
            executors=Executor.objects.visible_to(request.user),
            shows_params=self.admin.has_payload_permission(request),
            once=self.once(request),
        )

    def with_related(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.select_related("executor", "template")

    def import_help(self) -> Sequence[str]:
        return (
            gettext(
                "A row with an id changes that task, as it stands in an export; a row without one "
                "is a new task, which needs a title and an executor."
            ),
            gettext(
                "Cells that are empty or unchanged leave things as they are. Write none to take "
                "away an end, a limit of dispatch times or a template. With a version, a task that "
                "was changed since is refused."
            ),
            gettext("Times without an offset are read in the time zone of the repeating task.")
            if self.admin.model is RotateTask
            else gettext("Times without an offset are read in the time zone of the page."),
        )
