"""Once and rotate tasks as CSV: new ones, and edits of those that stand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, ClassVar

import tablib  # type: ignore[import-untyped]
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext

from apps.common import clock
from apps.common.admin import actor_of
from apps.common.admin.csv_text import plain_cell, read_cell
from apps.common.admin.display import MASK, is_secret, redacted, shown_text, unredacted
from apps.common.admin.exchange import CsvExchange, ServiceResource
from apps.common.admin.filters import read_number
from apps.common.admin.json_text import read_json
from apps.common.db import take_version
from apps.common.errors import Conflict, FieldError, Invalid, Mistakes, PlatformError
from apps.common.messages import wire_time
from apps.dispatch.models import Executor, OnceTask, RotateTask, Template
from apps.dispatch.services import tasks, templates
from apps.dispatch.services.judging import judge
from apps.dispatch.services.tasks import Edit
from apps.journal import services as journal
from apps.journal.admin.words import name_of, value_of
from apps.journal.models import Source

RULE_PARTS = ("every_minutes", "every_days", "at", "cron")
NONE = "none"
MAX_TOLD = 60
_FIRST = ("id", "version", "title", "executor", "status", "start_at", "end_at")
_RULE = (*RULE_PARTS, "time_zone", "misfire", "misfire_limit")
_LAST = (
    "mode",
    "dispatch_times",
    "priority",
    "lease_seconds",
    "on_failure",
    "on_expiry",
    "max_rounds",
    "template",
)
_NUMBERS = {
    "every_minutes",
    "every_days",
    "misfire_limit",
    "dispatch_times",
    "priority",
    "lease_seconds",
    "max_rounds",
}
_INSTANTS = {"start_at", "end_at"}
_MAY_BE_NONE = {"end_at", "dispatch_times", "template"}


class TaskResource(ServiceResource):
    """A row with an id is an edit of that task, and one without it is a new task.

    A cell that is empty, missing or as it was exported leaves its field as it is. `rows` and
    `executors` are what the operator may see; `shows_params` is off for who may not see params.
    With the same `once` rows are imported one time only.
    """

    class Meta(ServiceResource.Meta):
        abstract = True

    def __init__(
        self,
        *,
        actor: str,
        rows: QuerySet[Any],
        executors: QuerySet[Executor],
        shows_params: bool,
        once: int | None = None,
    ) -> None:
        super().__init__()
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
        self._edits: list[Edit] = []
        self._given_more: set[int] = set()

    # --- in ---------------------------------------------------------------------------------------
    def before_import(self, dataset: tablib.Dataset, **kwargs: Any) -> None:
        numbers = map(read_number, dataset["id"] if "id" in dataset.headers else [])
        self._found = self.rows.in_bulk([number for number in numbers if number is not None])
        if "executor" in dataset.headers:
            named = self.executors.filter(name__in={*dataset["executor"]} - {""})
            self._executors = {executor.name: executor for executor in named}

    def get_instance(self, instance_loader: Any, row: Mapping[str, str]) -> Any:
        text = row.get("id", "")
        if not text:
            return None
        number = read_number(text)
        task = None if number is None else self._found.get(number)
        if task is None:
            raise Invalid.field(
                "id",
                gettext("There is no %(what)s %(id)s; leave the cell empty for a new one.")
                % {"what": self._meta.model._meta.verbose_name, "id": repr(text[:40])},
            )
        if task.pk in self._named:
            raise Invalid.field("id", gettext("An earlier row is about the same task."))
        self._named.add(task.pk)
        return task

    def write(self, instance: Any, row: Mapping[str, str], *, is_new: bool) -> bool:
        edit = self._plan(instance, row) if is_new else self._change(instance, row)
        if edit is None:
            return False
        self._edits.append(edit)
        if not is_new:
            self.told = _difference(edit)
        return True

    def finish(self, *, is_trial: bool) -> None:
        # Executors are locked at the end alone, and never by a trial: their pulls wait for it.
        if is_trial:
            return
        self._demand_first()
        if self._meta.model is RotateTask:
            tasks.lock_room(RotateTask, self._given_more)
            tasks.demand_rooms(self._given_more)
        tasks.tell(self._edits)

    def _demand_first(self) -> None:
        """Conflict when this import has been made already: new tasks would be there twice."""
        if self.once is None or not self._edits:
            return
        entry = journal.Entry(
            at=self.now,
            source=Source.PLAN,
            subject_id=self.once,
            event="tasks_imported",
            type_or_task=self._meta.model.source,
            actor=self.actor,
            data={"rows": len(self._edits)},
        )
        if not journal.write_once(entry, self.once):
            raise Conflict(gettext("This form was sent before, and its rows are imported already."))

    def _plan(self, instance: Any, row: Mapping[str, str]) -> Edit:
        mistakes = Mistakes()
        for name in ("title", "executor"):
            if not row.get(name):
                told = gettext("A new task needs a cell in the column %s.") % name
                mistakes.add(Invalid.field(name, told))
        fields = self._fields({name for name, text in row.items() if text}, row, None, mistakes)
        task, edit = tasks.plan(
            self._meta.model, fields, now=self.now, actor=self.actor, locks=False
        )
        instance.__dict__.update(task.__dict__)
        self._given_more.add(task.executor_id)
        return edit

    def _change(self, task: Any, row: Mapping[str, str]) -> Edit | None:
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
        current = take_version(self._meta.model, task.pk, version)
        with self._hidden_params():
            changes = self._fields(fields, row, current, mistakes)
        if not {"executor", "status"}.isdisjoint(changes):
            self._given_more.add(changes.get("executor", current.executor).pk)
        with self._hidden_params():
            return tasks.change(current, changes, now=self.now, actor=self.actor, locks=False)

    @contextmanager
    def _hidden_params(self) -> Iterator[None]:
        """What is said of stored params quotes them, which not everybody may see."""
        try:
            yield
        except PlatformError as error:
            told = [each for each in error.errors if not each.field.startswith("params")]
            if self.shows_params or len(told) == len(error.errors):
                raise
            hidden = gettext(
                "The stored params do not fit this template; ask somebody who sees them."
            )
            told.append(FieldError("template", "invalid", hidden))
            raise Invalid(told[0].message, errors=told) from error

    def _fields(
        self, names: set[str], row: Mapping[str, str], current: Any, mistakes: Mistakes
    ) -> dict[str, Any]:
        """The values of the named cells; the parts of a rule are one value together.

        Invalid, when one cannot be read or there are mistakes already, with all of the row.
        """
        plain = names - {"id", "version", *RULE_PARTS}
        fields = {}
        for name in sorted(plain):
            with mistakes:
                fields[name] = self._value(name, row[name], current)
        if self._meta.model is RotateTask and (current is None or names & {*RULE_PARTS}):
            stored = {} if current is None else current.rule
            given = {part: row.get(part, stored.get(part)) for part in RULE_PARTS}
            with mistakes:
                fields["rule"] = {
                    part: _number(str(text), f"rule.{part}") if part in _NUMBERS else text
                    for part, text in given.items()
                    if text not in ("", None)
                }
        if mistakes:
            with mistakes:
                judge(self._meta.model, fields, current=current)
            mistakes.raise_all()
        return fields

    def _value(self, name: str, text: str, current: Any) -> Any:
        if name in _MAY_BE_NONE and text.lower() == NONE:
            return None
        if name in _NUMBERS:
            return _number(text, name)
        if name in _INSTANTS:
            return _instant(text, name)
        if name == "executor":
            return self._executor(text)
        if name == "template":
            return self._template(text)
        if name == "params":
            return _params(text, None if current is None else current.params)
        return text

    def _executor(self, name: str) -> Executor:
        if name not in self._executors:
            raise Invalid.field("executor", gettext("There is no executor %s.") % repr(name[:80]))
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
    def get_export_headers(self, selected_fields: Any = None) -> list[str]:
        return [*self.columns] if self.shows_params else [*self.columns[:-1]]

    def export_resource(self, instance: Any, **kwargs: Any) -> list[str]:
        cells = self.cells(instance)
        return [plain_cell(cells[column]) for column in self.get_export_headers()]

    def cells(self, instance: Any) -> dict[str, Any]:
        cells = {
            name: getattr(instance, name)
            for name in (*_FIRST, *_RULE, *_LAST)
            if name not in RULE_PARTS and hasattr(instance, name)
        }
        for name in _INSTANTS:
            cells[name] = None if cells[name] is None else wire_time(cells[name])
        if isinstance(instance, RotateTask):
            cells |= {name: instance.rule.get(name) for name in RULE_PARTS}
        cells["executor"] = instance.executor.name
        cells["template"] = None if instance.template is None else str(instance.template)
        if instance.dispatch_times is None:
            # A new task from a row without it would have a limit of one.
            cells["dispatch_times"] = NONE
        if self.shows_params:
            cells["params"] = json.dumps(redacted(instance.params), ensure_ascii=False)
        return cells


class OnceTaskResource(TaskResource):
    columns = (*_FIRST, *_LAST, "params")

    class Meta(ServiceResource.Meta):
        model = OnceTask
        fields = ("id",)


class RotateTaskResource(TaskResource):
    columns = (*_FIRST, *_RULE, *_LAST, "params")

    class Meta(ServiceResource.Meta):
        model = RotateTask
        fields = ("id",)


def _difference(edit: Edit) -> str:
    """`priority 0 → 5`: each field that the edit changes; of params only that they change."""
    data = edit.entry.data or {}
    parts = []
    for name, after in data["after"].items():
        before = data["before"][name]
        if isinstance(after, dict):
            parts.append(name_of(name))
            continue
        told = (shown_text(value_of(name, value), limit=MAX_TOLD) for value in (before, after))
        parts.append(f"{name_of(name)} {' → '.join(told)}")
    return "; ".join(parts)


def _number(text: str, field: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        raise Invalid.field(
            field, gettext("%(text)s is not a whole number.") % {"text": repr(text[:40])}
        )
    return int(text)


def _instant(text: str, field: str) -> datetime:
    """With an offset that moment, without one the time on the clocks of the page."""
    try:
        instant = datetime.fromisoformat(text)
        if timezone.is_naive(instant):
            instant = timezone.make_aware(instant)
        instant = instant.astimezone(timezone.get_default_timezone())
        if not 1970 <= instant.year < 9999:
            raise ValueError("not within the calendar")
    except (ValueError, OverflowError) as error:
        raise Invalid.field(
            field,
            gettext("%(text)s is not a time; write for example 2026-03-31T09:30:00Z.")
            % {"text": repr(text[:40])},
        ) from error
    return instant


def _params(text: str, stored: Any) -> dict[str, Any]:
    params: Any = read_json(text)
    if not isinstance(params, dict):
        raise Invalid.field("params", gettext("Write a JSON object: {…}."))
    edited: dict[str, Any] = unredacted(params, stored)
    if _keeps_mask(edited):
        raise Invalid.field(
            "params", gettext("%s stands for a value that is not there; write the value.") % MASK
        )
    return edited


def _keeps_mask(value: Any) -> bool:
    if isinstance(value, dict):
        return any((v == MASK and is_secret(k)) or _keeps_mask(v) for k, v in value.items())
    return isinstance(value, list) and any(map(_keeps_mask, value))


class TaskExchange(CsvExchange):
    """The import and export of tasks, before VersionedModelAdmin."""

    resource_class: ClassVar[type[TaskResource]]
    needed_columns = ()
    row_names = ("title", "id")

    def resource(self, request: HttpRequest) -> TaskResource:
        return self.resource_class(
            actor=actor_of(request),
            rows=self.with_related(self.get_queryset(request)),
            executors=Executor.objects.visible_to(request.user),
            shows_params=self.has_payload_permission(request),
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
        )
