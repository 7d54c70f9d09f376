"""Planning: executors and members of groups. Every edit is one transaction with one
journal entry, and raises the plan version of everybody whose queue it could change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from copy import copy
from datetime import datetime
from typing import Any

from apps.common import clock, uses
from apps.common.db import fetch, shared_lock, table, transactional
from apps.common.errors import Conflict, Invalid, Mistakes, NotFound
from apps.common.messages import Message as _
from apps.common.messages import joined
from apps.dispatch.models import Executor, Membership
from apps.dispatch.rules import names
from apps.dispatch.services.blockers import INSTEAD, blockers
from apps.journal import services as journal
from apps.journal.services.edit import (
    Revision,
    edit_entry,
    record_edit,
    take_version,
    unless_taken,
)

MAX_MEMBERS_AT_ONCE = 1000
MAX_TITLE = 200


def find(name: str, *, bound: Iterable[str] | None = None) -> Executor:
    """The executor of that name; NotFound when unknown or outside the names in `bound`."""
    executors = Executor.objects.all() if bound is None else Executor.objects.within(bound)
    executor = executors.filter(name=name).first() if names.is_name(name) else None
    if executor is None:
        raise NotFound(_("There is no person or group {name!r}.", name=name[:80]))
    return executor


@transactional
def create_executor(
    *,
    name: str,
    title: str = "",
    enabled: bool = True,
    members: Sequence[str] = (),
    actor: str,
) -> Executor:
    """A new user or group, as its name says. Conflict when the name is taken."""
    now = clock.now()
    executor = draft_executor(name=name, title=title, enabled=enabled, actor=actor, now=now)
    there = _("{name} exists already; edit it instead.", name=name)
    with unless_taken(there, field="name"):
        executor.save(force_insert=True)
    record_edit(executor, "executor_created", now=now, actor=actor, after=executor.journal_values())
    if members:
        change_members(group=executor, add=members, actor=actor)
    return executor


def draft_executor(
    *, name: str, title: str = "", enabled: bool = True, actor: str, now: datetime
) -> Executor:
    """A valid new executor that is not written, whether or not its name is taken."""
    mistakes = Mistakes()
    with mistakes:
        names.kind_of(name)
    with mistakes:
        _check_title(title)
    mistakes.raise_all()
    return _new_executor(name, now=now, actor=actor, title=title, enabled=enabled)


def differs(executor: Executor, changes: dict[str, Any]) -> bool:
    """Whether the changes of title and `enabled` would change anything; Invalid as
    `update_executor`, and writes nothing."""
    revision = Revision(copy(executor))
    changed = revision.fill(changes)
    _check_title(revision.row.title)
    return bool(changed)


@transactional
def update_executor(
    *,
    executor: Executor,
    changes: dict[str, Any],
    actor: str,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
    version: int | None = None,
    reason: str = "",
) -> Executor:
    """Change `title` and `enabled`, add and remove members.

    Conflict when `version` is given and no longer current.
    """
    unknown = set(changes) - {"title", "enabled"}
    if unknown:
        message = _("{field} of a person or group cannot be changed.", field=min(unknown))
        raise Invalid.field(min(unknown), message)
    revision = Revision.of(executor, version)
    current = revision.row
    changed = revision.fill(changes)
    _check_title(current.title)
    if "enabled" in changed:
        Executor.objects.filter(pk=current.pk).raise_plan_version()
    revision.write("executor_changed", now=clock.now(), actor=actor, reason=reason)
    if add or remove:
        change_members(group=current, add=add, remove=remove, actor=actor)
    return current


@transactional
def change_members(
    *,
    group: Executor,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
    actor: str,
    bound: Iterable[str] | None = None,
) -> list[str]:
    """Put users into a group and take users out; unknown `uid_` names in `add` become executors.

    Returns the names of all members afterwards, sorted. Repeating it changes nothing. With `bound`,
    NotFound when `add` names other executors: joining would bring them within the limits.
    """
    _check_members(group, add, remove)
    if bound is not None:
        _require_visible(bound, add)
    now = clock.now()
    _keep(group)
    known = {e.name: e for e in Executor.objects.filter(name__in={*add, *remove})}
    have = dict(
        Membership.objects.filter(group=group, user__name__in=known).values_list("user__name", "pk")
    )
    joining = sorted(set(add) - set(have))
    leaving = sorted(set(remove) & set(have))
    if joining or leaving:
        concerned = {*joining, *leaving} & set(known)
        if Executor.objects.filter(name__in=concerned).raise_plan_version() < len(concerned):
            raise Conflict(_("Somebody else has just deleted one of the members; repeat it."))
        known |= _make_users(set(joining) - set(known), now=now, actor=actor)
        Membership.objects.filter(pk__in=sorted(have[name] for name in leaving)).delete()
        raced = _(
            "Somebody else has just changed the members of {group}; read them and repeat.",
            group=group.name,
        )
        with unless_taken(raced):
            Membership.objects.bulk_create(
                Membership(user=known[name], group=group, created_at=now) for name in joining
            )
        record_edit(
            group,
            "members_changed",
            now=now,
            actor=actor,
            before={"remove": leaving},
            after={"add": joining},
        )
    return member_names(group)


def _keep(group: Executor) -> None:
    """Lock the group against its deletion; Conflict when it is gone."""
    sql = f"SELECT id FROM {table(Executor)} WHERE id = %s{shared_lock()}"
    if not fetch(sql, [group.pk]):
        raise Conflict(
            _("{name} was deleted just now, so its members do not change.", name=group.name)
        )


def _make_users(missing: Collection[str], *, now: datetime, actor: str) -> dict[str, Executor]:
    """New user executors by name, in a constant number of statements."""
    # Joining is the first change of their plan.
    rows = [_new_executor(name, now=now, actor=actor, plan_version=1) for name in sorted(missing)]
    raced = _("Somebody else has just created some of the new members; repeat the request.")
    with unless_taken(raced):
        Executor.objects.bulk_create(rows)
    # Read again, because MySQL returns no keys for several inserted rows.
    made = {executor.name: executor for executor in Executor.objects.filter(name__in=missing)}
    journal.write(
        [
            edit_entry(
                made[row.name], "executor_created", now=now, actor=actor, after=row.journal_values()
            )
            for row in rows
        ]
    )
    return made


def member_names(group: Executor) -> list[str]:
    """The names of the group's users, sorted."""
    return list(
        Membership.objects.filter(group=group)
        .order_by("user__name")
        .values_list("user__name", flat=True)
    )


@transactional
def remove_executor(*, executor: Executor, actor: str) -> None:
    """Delete an executor that nothing refers to; Conflict says what does.

    Waits for hand-outs in flight, because they hold its row, and no later one finds it.
    """
    executor = take_version(executor)
    found = [sentence for _kind, sentence in blockers(executor)]
    if found := [*found, *uses.of(uses.EXECUTOR, executor.name)]:
        raise Conflict(
            _(
                "{executor} cannot be deleted yet: {what} {instead}",
                executor=executor.name,
                what=joined(found),
                instead=INSTEAD,
            )
        )
    now = clock.now()
    record_edit(
        executor, "executor_deleted", now=now, actor=actor, before=executor.journal_values()
    )
    raced = _(
        "Somebody else has just assigned something to {executor}; read it again.",
        executor=executor.name,
    )
    with unless_taken(raced):
        executor.delete()


def _new_executor(name: str, *, now: datetime, actor: str, **fields: Any) -> Executor:
    return Executor.made(name=name, kind=names.kind_of(name), now=now, actor=actor, **fields)


def _check_title(title: str) -> None:
    if len(title) > MAX_TITLE:
        message = _("A title has at most {limit} characters.", limit=MAX_TITLE)
        raise Invalid.field("title", message)


def require_group(executor: Executor) -> None:
    """Invalid for a user: only groups have members."""
    if not executor.is_group:
        message = _("{name} is a user; only a group (gid_…) has members.", name=executor.name)
        raise Invalid.field("name", message)


def _check_members(group: Executor, add: Sequence[str], remove: Sequence[str]) -> None:
    require_group(group)
    if len(add) + len(remove) > MAX_MEMBERS_AT_ONCE:
        raise Invalid.field(
            "add",
            _(
                "At most {limit} members change at once; send several requests.",
                limit=MAX_MEMBERS_AT_ONCE,
            ),
        )
    for field, listed in (("add", add), ("remove", remove)):
        for position, name in enumerate(listed):
            names.require_user(name, field=f"{field}[{position}]")
    both = sorted(set(add) & set(remove))
    if both:
        message = _("{name} is both to be added and to be removed.", name=both[0])
        raise Invalid.field("remove", message)


def _require_visible(bound: Iterable[str], listed: Sequence[str]) -> None:
    bound = set(bound)
    members = Executor.objects.within(bound).filter(name__in=listed)
    for stranger in sorted(set(listed) - bound - set(members.values_list("name", flat=True))):
        raise NotFound(_("There is no person or group {name!r}.", name=stranger))
