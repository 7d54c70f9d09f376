"""Saved flows. A version never changes; an edit makes the next one, and runs keep theirs."""

from __future__ import annotations

from typing import Any

from apps.common.db import transactional
from apps.common.errors import Invalid, Mistakes, NotFound
from apps.common.json_rules import is_same
from apps.common.messages import Message as _
from apps.common.readers import fits_address, is_key
from apps.flows.models import MAX_NAME, MAX_TITLE, Flow, is_within
from apps.flows.rules.labels import step_label
from apps.flows.services.check import check
from apps.jobs.models import Bounds
from apps.jobs.services.submit_check import PLATFORM
from apps.journal.services import versions

# The address of the check has this in place of a name.
_CHECK = "check"
# Further versions are not asked for the steps of a flow.
MAX_VERSIONS = 50


def find_flow(name: str, *, bounds: Bounds = PLATFORM) -> Flow:
    """The newest version of that name, retired or not; NotFound also when it reaches beyond the
    bounds."""
    row = Flow.objects.latest_of(name) if is_key(name, MAX_NAME) else None
    if row is None or not is_within(row.read, bounds):
        raise NotFound(_("There is no flow {name!r}.", name=name[:80]))
    return row


@transactional
def put_flow(
    *,
    name: str,
    definition: Any,
    actor: str,
    title: str = "",
    new: bool = False,
    based_on: int | None = None,
    bounds: Bounds = PLATFORM,
) -> Flow:
    """The next version of a flow, the first when the name is new; with all that is wrong if it is.

    Conflict with `new` when the name exists, and with `based_on` when that is no longer the newest
    version. The same again makes no version.
    """
    mistakes = Mistakes()
    with mistakes:
        check_name(name)
    with mistakes:
        if len(title) > MAX_TITLE:
            message = _("A title has at most {limit} characters.", limit=MAX_TITLE)
            raise Invalid.field("title", message)
    with mistakes:
        check(definition, bounds=bounds)
    mistakes.raise_all()
    latest, newest = versions.newest_of(Flow.objects.all(), name, new=new, based_on=based_on)
    if latest is not None and latest.status == Flow.Status.ACTIVE:
        if latest.title == title and is_same(latest.definition, definition):
            return latest
    made = {"title": title, "definition": definition}
    return versions.add_version(Flow, name, newest + 1, actor=actor, **made)


def check_name(name: str) -> None:
    """Invalid unless a flow can have this name."""
    if is_key(name, MAX_NAME) and fits_address(name) and name != _CHECK:
        return
    raise Invalid.field(
        "name",
        _(
            "{name!r} is not a flow's name; use 1 to {limit} letters, digits and "
            "_ . : @ + -, without blanks and slashes, neither check nor only dots: addresses "
            "hold it.",
            name=name[:80],
            limit=MAX_NAME,
        ),
    )


def steps_of(flow: str) -> set[str]:
    """The labels of the steps that the newest versions of a flow have."""
    rows = Flow.objects.filter(name=flow).order_by("-version")[:MAX_VERSIONS]
    return {step_label(flow, step) for row in rows for step in row.read.steps}
