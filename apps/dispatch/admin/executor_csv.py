"""Executors and their groups as CSV."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext

from apps.common import clock
from apps.common.admin.actions import actor_of
from apps.common.admin.csv_pages import CHANGED, NEW, UNCHANGED, CsvPages, CsvResource
from apps.common.admin.csv_text import plain_cell, read_cell
from apps.common.errors import FieldError, Invalid, Mistakes
from apps.common.messages import wire_time
from apps.dispatch.models import Executor
from apps.dispatch.models.executor import ExecutorQuerySet
from apps.dispatch.rules import names
from apps.dispatch.services import executors

COLUMNS = ("name", "title", "enabled", "groups")
_YES, _NO = {"1", "yes", "true", "y"}, {"0", "no", "false", "n"}


class ExecutorResource(CsvResource):
    """The column `groups` adds the user to those groups and removes it from none. Empty or missing
    cells change nothing.
    """

    columns = ("name", "kind", "title", "enabled", "groups", "last_seen_at")

    def __init__(self, *, actor: str, visible: ExecutorQuerySet) -> None:
        self.actor = actor
        self.visible = visible
        self._groups: dict[str, Executor] = {}
        self._members: dict[str, set[str]] = {}
        self._joining: dict[str, list[str]] = {}
        self._known: set[str] = set()
        # What new executors and known ones are to have.
        self._new: dict[str, dict[str, Any]] = {}
        self._changed: dict[str, tuple[Executor, dict[str, Any]]] = {}

    # --- in ---------------------------------------------------------------------------------------
    def prepare(self, rows: Sequence[Mapping[str, str]]) -> None:
        named = {row["name"] for row in rows}
        self._known = {*Executor.objects.filter(name__in=named).values_list("name", flat=True)}

    def check(self, row: Mapping[str, str]) -> tuple[str, str]:
        name = row["name"]
        mistakes = Mistakes()
        given: dict[str, Any] = {"title": row["title"]} if row.get("title") else {}
        with mistakes:
            if row.get("enabled"):
                given["enabled"] = _enabled(row["enabled"])
        with mistakes:
            groups = self._wanted_groups(row.get("groups") or "", name)
        with mistakes:
            executor, outcome = self._checked_one(name, given)
        mistakes.raise_all()
        for group in groups:
            if self._note_joining(executor, group) and outcome == UNCHANGED:
                outcome = CHANGED
        return outcome, ""

    def _checked_one(self, name: str, given: dict[str, Any]) -> tuple[Executor, str]:
        if name not in self._known:
            # A further row about it adds to what the first one says.
            outcome = CHANGED if name in self._new else NEW
            whole = {**self._new.get(name, {}), **given}
            executor = self._drafted(name, whole)
            self._new[name] = whole
            return executor, outcome
        current = self._seen(name, "name")
        if given.get("title") == read_cell(plain_cell(current.title)):
            # Unchanged since the export, which trims blanks.
            del given["title"]
        _same, before = self._changed.get(name, (current, {}))
        if not executors.differs(current, {**before, **given}):
            return current, UNCHANGED
        self._changed[name] = current, {**before, **given}
        return current, CHANGED

    def _drafted(self, name: str, given: dict[str, Any]) -> Executor:
        return executors.draft_executor(name=name, actor=self.actor, now=clock.now(), **given)

    def _wanted_groups(self, text: str, user: str) -> list[str]:
        """The names of the groups of a cell; Invalid with each that the user cannot join."""
        named = re.findall(r"[^\s,;|]+", text)
        if named:
            names.require_user(user, field="name")
        refused: list[FieldError] = []
        for name in named:
            try:
                self._know_group(name)
            except Invalid as error:
                refused += error.errors
        if refused:
            raise Invalid(refused[0].message, errors=refused)
        return named

    def _know_group(self, name: str) -> None:
        if name not in self._groups:
            group = self._seen(name, "groups")
            if not group.is_group:
                raise Invalid.field("groups", gettext("%s is a person, not a group.") % name)
            self._groups[name] = group
            self._members[name] = set(executors.member_names(group)) if group.pk else set()

    def _note_joining(self, executor: Executor, name: str) -> bool:
        """Whether the user is new in the group; `save` adds all of them at once."""
        if executor.name in self._members[name]:
            return False
        self._members[name].add(executor.name)
        self._joining.setdefault(name, []).append(executor.name)
        return True

    def save(self) -> None:
        made = {
            name: executors.create_executor(name=name, actor=self.actor, **given)
            for name, given in self._new.items()
        }
        for executor, given in self._changed.values():
            executors.update_executor(
                executor=executor, changes=given, version=executor.version, actor=self.actor
            )
        for name, joining in sorted(self._joining.items()):
            group = made.get(name) or self._groups[name]
            executors.change_members(group=group, add=joining, actor=self.actor)

    def _seen(self, name: str, field: str) -> Executor:
        """The executor of that name, if the operator may see it, or one of the rows before."""
        if name in self._new:
            return self._drafted(name, self._new[name])
        executor = self.visible.filter(name=name).first()
        if executor is None:
            raise Invalid.field(field, gettext("There is no person or group %s.") % repr(name[:80]))
        return executor

    # --- out --------------------------------------------------------------------------------------
    @cached_property
    def _visible_groups(self) -> set[str]:
        groups = self.visible.filter(kind=Executor.Kind.GROUP)
        return set(groups.values_list("name", flat=True))

    def cells(self, instance: Executor) -> dict[str, Any]:
        seen = instance.last_seen_at
        groups = {membership.group.name for membership in instance.memberships.all()}
        return {
            "name": instance.name,
            "kind": instance.kind,
            "title": instance.title,
            "enabled": instance.enabled,
            "groups": " ".join(sorted(groups & self._visible_groups)),
            "last_seen_at": "" if seen is None else wire_time(seen),
        }


def _enabled(text: str) -> bool:
    word = text.lower()
    if word not in _YES | _NO:
        raise Invalid.field(
            "enabled", gettext("%s is neither yes nor no; write yes or no.") % repr(word[:20])
        )
    return word in _YES


class ExecutorCsvPages(CsvPages):
    """Import and export of executors."""

    ignored_columns: ClassVar[tuple[str, ...]] = ("kind", "last_seen_at")

    def import_title(self) -> str:
        return gettext("Import people and groups")

    def resource(self, request: HttpRequest) -> ExecutorResource:
        visible = Executor.objects.visible_to(request.user)
        return ExecutorResource(actor=actor_of(request), visible=visible)

    def import_columns(self, request: HttpRequest) -> Sequence[str]:
        return COLUMNS

    def import_help(self) -> Sequence[str]:
        return (
            gettext(
                "Only name is needed; uid_… is a person, gid_… a group. The column groups adds a "
                "person to these groups, divided by blanks. Empty cells leave things as they are."
            ),
        )

    def with_related(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.prefetch_related("memberships__group")
