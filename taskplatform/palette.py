"""The palette: pages and rows that are found while somebody types, and actions on them.

Nothing is done here: an action leads to the page that asks for it, or shows what it would change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.text import capfirst
from django.utils.translation import gettext

from apps.bulk.services.targets import TARGETS
from apps.common.admin.actions import allows, specs
from apps.common.admin.base import PlatformModelAdmin
from apps.common.admin.display import beside, listed, translate
from apps.common.lookups import folding
from apps.dispatch.models import (
    ArchivedDispatch,
    ArchivedTask,
    Dispatch,
    Executor,
    OnceTask,
    RotateTask,
)
from apps.flows.models import Flow, FlowRun
from apps.jobs.handlers import registry
from apps.jobs.models import ArchivedJob, Job, JobType
from apps.jobs.rules import verbs
from apps.journal.models import JournalEntry
from apps.schedules.models import Schedule
from taskplatform.menu import Tab
from taskplatform.search import Hit, HitGroup, Term, find_rows, pages_named, payloads_with
from taskplatform.search_kinds import KINDS, MAX_JOBS

# Lines of each kind, and rows whose actions are offered.
CAP, ACTED = 4, 2
ACTIONS, PEOPLE = ">", "@"
_WORK = (Dispatch, Job, OnceTask, RotateTask, Schedule, FlowRun, Flow)
_ADDED = (OnceTask, RotateTask, Schedule, Job, Executor)
# Verbs on all jobs of a type in a state.
_OF_TYPE = ((verbs.RETRY, "failed"), (verbs.CANCEL, "scheduled,ready"))


class Option(NamedTuple):
    """A line of the palette: its address, the title in three parts of which the second is what was
    typed, and what distinguishes it; `asks` for an action."""

    url: str
    title: tuple[str, str, str]
    detail: str = ""
    asks: bool = False


@dataclass(frozen=True)
class Group:
    """The lines of one kind under their heading."""

    title: str
    options: Sequence[Option]


def find_options(request: HttpRequest, typed: str, pages: Iterable[Tab]) -> list[Group]:
    """The groups for the typed text, the best hit first; after `>` actions only, after `@` people
    only."""
    mode = typed[:1] if typed[:1] in (ACTIONS, PEOPLE) else ""
    term = Term.read(typed[len(mode) :])
    if mode == PEOPLE:
        people = find_rows(request, term, _kinds((Executor,)))
        return _groups([(gettext("People and groups"), _options(people, term))])
    if mode == ACTIONS:
        return _groups([(gettext("Do"), [*_actions(request, term)])])
    rows = find_rows(request, term, _kinds(kind.model for kind in KINDS if kind.has_list))
    named = pages_named(pages, term)
    groups = [
        (gettext("People and groups"), _options(_of(rows, (Executor,)), term)),
        (gettext("Tasks and jobs"), _options(_of(rows, _WORK), term)),
        (
            gettext("Pages"),
            [
                *_options([each for each in rows if each.model not in (*_WORK, Executor)], term),
                *_options([named] if named else [], term),
            ],
        ),
    ]
    best = _best([option for _title, options in groups for option in options], term)
    do = [*_on_rows(request, rows, term, "")] or [*_by_verb(request, term)]
    return _groups(
        [
            (gettext("Best"), [best] if best else []),
            (gettext("Do"), do),
            *((title, [each for each in options if each != best]) for title, options in groups),
            (gettext("In payloads"), [*_payloads(request, term)]),
        ]
    )


def _groups(found: Iterable[tuple[str, Sequence[Option]]]) -> list[Group]:
    return [Group(title, options[:CAP]) for title, options in found if options]


def _kinds(models: Iterable[type[Model]]) -> list[Any]:
    wanted = {*models}
    return [kind for kind in KINDS if kind.model in wanted]


# Rows that are over are found only by the page of the search.
_SOUGHT = [
    kind
    for kind in KINDS
    if kind.model not in (ArchivedDispatch, ArchivedJob, ArchivedTask, JournalEntry)
]


def _of(groups: Iterable[HitGroup], models: Sequence[type[Model]]) -> list[HitGroup]:
    return [group for group in groups if group.model in models]


def _options(groups: Iterable[HitGroup], term: Term) -> list[Option]:
    """Some hits of each kind as options, beginning with the first of each."""
    found = []
    for group in groups:
        kind = group.model._meta.verbose_name if group.model else ""
        for place, hit in enumerate(group.hits[:CAP]):
            detail = " · ".join(filter(None, [str(kind or ""), hit.detail]))
            found.append((place, Option(hit.url, _marked(hit.title, term.text), detail)))
    return [option for _place, option in sorted(found, key=lambda each: each[0])]


def _best(options: Sequence[Option], term: Term) -> Option | None:
    """The option with just this title, else one that begins with it, else the first."""
    text = term.text.casefold()

    def distance(option: Option) -> int:
        title = "".join(option.title).casefold()
        return 0 if title == text else 1 if title.startswith(text) else 2

    return min(options, key=distance, default=None)


def _marked(title: str, text: str) -> tuple[str, str, str]:
    match = re.search(folding(text), title) if text else None
    if match is None:
        return title, "", ""
    return title[: match.start()], match[0], title[match.end() :]


def _payloads(request: HttpRequest, term: Term) -> Iterator[Option]:
    if (hit := payloads_with(request, term)) is not None:
        said = gettext("%(count)s jobs of the newest %(newest)s")
        detail = said % {"count": f"{hit[0]:,}", "newest": f"{MAX_JOBS:,}"}
        yield Option(hit[1], _marked(term.text, term.text), detail)


# --- actions --------------------------------------------------------------------------------------
def _actions(request: HttpRequest, term: Term) -> Iterator[Option]:
    """The actions whose words begin with the first typed word, on rows that the other words find;
    and all actions on rows that all words find."""
    yield from _new(request, term)
    if term.text:
        yield from _on_rows(request, find_rows(request, term, _SOUGHT), term, "")
    yield from _by_verb(request, term)


def _by_verb(request: HttpRequest, term: Term) -> Iterator[Option]:
    """`pause mail`: the actions whose words begin with the first, on rows that the others find."""
    verb, _blank, rest = term.text.partition(" ")
    if rest.strip():
        of = Term.read(rest)
        yield from _on_rows(request, find_rows(request, of, _SOUGHT), of, verb)


def _new(request: HttpRequest, term: Term) -> Iterator[Option]:
    for model in _ADDED:
        model_admin: Any = admin.site._registry[model]
        words = gettext("Add %s") % model._meta.verbose_name
        if term.text.casefold() in words.casefold() and model_admin.has_add_permission(request):
            yield Option(model_admin.url("add"), _marked(words, term.text))


def _on_rows(
    request: HttpRequest, groups: Iterable[HitGroup], term: Term, verb: str
) -> Iterator[Option]:
    """The actions of this person on the first rows that have one whose words begin with `verb`."""
    begin, acted = verb.casefold(), 0
    for model, hit in ((group.model, hit) for group in groups for hit in group.hits):
        acts = [each for each in _acts(request, model, hit) if each[0].casefold().startswith(begin)]
        for title, url in acts:
            yield Option(url, _marked(title, term.text), hit.detail, asks=True)
        # Without a verb, the rows that have none are among the first, too.
        acted += bool(acts or not verb)
        if acted == ACTED:
            return


def _acts(request: HttpRequest, model: Any, hit: Hit) -> Iterator[tuple[str, str]]:
    """The titles of the actions, and the pages that ask for them."""
    row, name = hit.row, hit.title
    model_admin = admin.site._registry.get(model)
    if isinstance(model_admin, PlatformModelAdmin):
        for act, spec in specs(model_admin).items():
            if allows(model_admin, request, spec) and spec.offered(row):
                words = capfirst(str(spec.description)).rstrip("…")
                title = beside(words, name)
                yield f"{title}…", f"{model_admin.url('act', act)}?ids={row.pk}"
    if model is JobType and row.name not in registry.system_types():
        for verb, states in _OF_TYPE:
            does = TARGETS["jobs"].verbs[verb]
            if request.user.has_perm(does.permission):
                asked = urlencode({"type": row.name, "status": states})
                labels = listed(Job.Status(each).label for each in states.split(","))
                said = {"act": translate(does.words), "states": labels, "name": name}
                title = gettext("%(act)s all %(states)s jobs of %(name)s…") % said
                yield title, f"{reverse('bulk_new', args=['jobs', verb])}?{asked}"
