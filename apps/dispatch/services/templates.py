"""Planning: templates. A version never changes; an edit makes the next one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apps.common import clock, uses
from apps.common.db import transactional
from apps.common.errors import Conflict, Invalid, Mistakes, NotFound
from apps.common.json.schema import check_schema
from apps.common.json_rules import check_json, is_same
from apps.common.masking.names import check_declared, forget_declared
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.readers import fits_address, is_key
from apps.dispatch.models import Template
from apps.journal.services import versions
from apps.journal.services.edit import record_edit

MAX_NAME = Template.MAX_NAME


def find(name: str) -> Template:
    """The newest version of that name, retired or not; NotFound when there is none."""
    template = newest_of([name]).get(name)
    if template is None:
        raise NotFound(_("There is no template {name!r}.", name=name[:80]))
    return template


def find_usable(name: str, *, field: str = "template") -> Template:
    """The newest version for a new task; Invalid when the name is unknown or retired."""
    return usable(name, newest_of([name]).get(name), field=field)


def newest_of(names: Iterable[str]) -> dict[str, Template]:
    """The newest versions of those of the names that there are, by name."""
    wanted = {name for name in names if is_key(name, MAX_NAME)}
    rows = Template.objects.newest().filter(name__in=wanted) if wanted else ()
    return {row.name: row for row in rows}


def usable(name: str, template: Template | None, *, field: str = "template") -> Template:
    """What was found by the name; Invalid when that is nothing, or retired."""
    if template is None:
        message = _("There is no template {name!r}; make it first.", name=name[:80])
        raise Invalid.field(field, message)
    check_usable(template, field=field)
    return template


def check_usable(template: Template, *, field: str = "template") -> None:
    """Invalid when the template is retired."""
    if template.status != Template.Status.ACTIVE:
        raise Invalid.field(
            field,
            _(
                "{template} is retired; choose another template or make it active again.",
                template=str(template),
            ),
        )


def check(name: str, schema: dict[str, Any]) -> None:
    """Invalid with all that is wrong with the name and the schema of a version."""
    mistakes = Mistakes()
    with mistakes:
        _check_name(name)
    with mistakes:
        check_schema_of(schema)
    mistakes.raise_all()


def check_schema_of(schema: Any) -> None:
    """A PlatformError unless the schema can be that of a template."""
    check_json(schema, field="schema")
    check_schema(schema)
    check_declared(schema, field="schema")


@transactional
def put_template(
    *,
    name: str,
    schema: dict[str, Any],
    actor: str,
    new: bool = False,
    based_on: int | None = None,
) -> Template:
    """The next version of a template, the first when the name is new.

    Conflict with `new` when the name exists, and with `based_on` when that is no longer the newest
    version. The same schema again makes no version, unless its fields are in another order.
    """
    check(name, schema)
    latest, newest = versions.newest_of(Template.objects.all(), name, new=new, based_on=based_on)
    is_active = latest is not None and latest.status == Template.Status.ACTIVE
    if latest is not None and is_active and not differs(latest.schema, schema):
        return latest
    template = versions.add_version(Template, name, newest + 1, actor=actor, schema=schema)
    forget_declared()
    return template


def differs(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether a schema says something else than the other, to checks or by the order of fields."""
    return not is_same(old, new) or [*old.get("properties", ())] != [*new.get("properties", ())]


@transactional
def remove_template(*, template: Template, actor: str) -> None:
    """Delete a version that no task has ever used; Conflict otherwise."""
    row = Template.objects.select_for_update().filter(pk=template.pk).first()
    if row is None:
        raise NotFound(_("{template} does not exist any more.", template=str(template)))
    if row.first_used_at is not None:
        message = _(
            "{template} has been used by tasks and is kept for them; retire it instead.",
            template=str(row),
        )
        raise Conflict(message)
    if used := uses_of(row):
        raise Conflict(uses.refusal(str(row), used))
    record_edit(
        row, "template_deleted", now=clock.now(), actor=actor, before={"version": row.version}
    )
    row.delete()


def uses_of(template: Template) -> list[Message]:
    """Who would miss the version: whoever names the template, if it has no other."""
    others = Template.objects.filter(name=template.name).exclude(pk=template.pk)
    return [] if others.exists() else uses.of(uses.TEMPLATE, template.name)


def _check_name(name: str) -> None:
    if is_key(name, MAX_NAME) and (
        fits_address(name) or Template.objects.filter(name=name).exists()
    ):
        return
    raise Invalid.field(
        "name",
        _(
            "{name!r} is not a template's name; use 1 to {limit} letters, digits and "
            "_ . : @ + -, without blanks and slashes, and not only dots: addresses hold it.",
            name=name[:80],
            limit=MAX_NAME,
        ),
    )
