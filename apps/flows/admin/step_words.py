"""Steps in words: who does them or what runs, when they begin, and when they are done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import Count
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin import who
from apps.common.admin.display import filled, listed
from apps.common.admin.durations import written
from apps.common.admin.html import joined
from apps.common.masking import redact
from apps.dispatch.admin.task_meaning import who_words
from apps.dispatch.models import Membership
from apps.flows.rules import picture, shapes
from apps.flows.rules.definition import Definition, Step
from apps.flows.rules.references import FROM, PARAMS, Missing, looked_up
from apps.flows.rules.texts import given_text, value_text
from apps.flows.services.masks import without_secrets
from apps.flows.services.people import as_fields

ICONS = {shapes.JOB: "memory", shapes.JOBS: "stacks", shapes.TASK: "group", shapes.WAIT: "timer"}
KIND_WORDS: Mapping[str, str | Promise] = {
    shapes.TASK: _("people"),
    shapes.JOB: _("job"),
    shapes.JOBS: _("jobs"),
    shapes.WAIT: _("wait"),
}
MAX_KINDS = 4


@dataclass(frozen=True, slots=True)
class People:
    """Those whom the steps of definitions are for, as far as an account may see them."""

    known: Mapping[str, who.Known]
    # Members of groups, by the name of the group.
    counts: Mapping[str, int]


def people_of(definitions: Iterable[Definition], user: Any) -> People:
    """The people that the definitions name, in two statements."""
    names = {name for each in definitions for name in each.executors}
    known = who.known(names, user)
    groups = [name for name, each in known.items() if each.is_group]
    rows = Membership.objects.filter(group__name__in=groups).order_by()
    counts = dict(rows.values_list("group__name").annotate(Count("pk"))) if groups else {}
    return People(known, counts)


def titles_of(definition: Any) -> dict[str, str]:
    """The titles of the steps of a stored definition that have one, by their names."""
    return {step["name"]: str(step["title"]) for step in definition["steps"] if step.get("title")}


def what_of(step: Step, people: People) -> SafeString:
    """The people who do it, or the jobs that run: `6 of the 20 people of All staff, each at most
    once`, `resize · one for each of list.photos`."""
    said = step.said
    if step.kind == shapes.TASK:
        fields, name = as_fields(step, {}), said["executor"]
        known = people.known.get(name, who.Known(name))
        count = people.counts.get(name, 0)
        return who_words(known, fields["mode"], fields["dispatch_times"], count)
    if step.kind == shapes.WAIT:
        if "seconds" not in said:
            return format_html("{}", gettext("until somebody finishes it"))
        return format_html("{}", written(said["seconds"]))
    if step.kind == shapes.JOB:
        return format_html("<bdi>{}</bdi>", said["type"])
    return format_html("<bdi>{}</bdi> · {}", said["type"], _each(said["each"]))


def _each(each: Any) -> SafeString:
    if isinstance(each, list):
        count = len(each)
        return format_html("{}", ngettext("%d job", "%d jobs", count) % count)
    at = ".".join(part for part in (each[FROM], each.get("path", "")) if part)
    return format_html(gettext("one for each of {}"), format_html("<bdi>{}</bdi>", at))


def each_of(step: Step) -> str:
    """The word of what it makes jobs of, `each of photos`; "" for other steps."""
    each = step.said.get("each")
    if not isinstance(each, dict):
        return ""
    return str(gettext("each of %s") % (each.get("path") or each[FROM]))


def limits_of(step: Step) -> str:
    """`within 4 h · at least 95 %`."""
    parts = [gettext("within %s") % written(step.within)] if step.within else []
    if least := least_of(step):
        parts.append(gettext("at least %s") % least)
    return " · ".join(parts)


def least_of(step: Step) -> str:
    """The number that must succeed, `95 %` or `2`; "" for all."""
    if "at_least" not in step.said:
        return ""
    unit = " %" if step.said.get("unit") == shapes.PERCENT else ""
    return f"{step.said['at_least']}{unit}"


def line_of(step: Step, people: People) -> SafeString:
    """The line of its box: who or what, and its limits."""
    each = each_of(step)
    what = what_of(step, people)
    if each:
        what = format_html("<bdi>{}</bdi> · <bdi>{}</bdi>", step.said["type"], each)
    return joined((part for part in (what, limits_of(step)) if part), " · ")


def when_of(step: Step, *, titles: Mapping[str, str]) -> str:
    """The beginning of the step in words: `after Shelf photos, if public = true`."""
    if not step.needs:
        text = gettext("at once")
    else:
        names = listed(titles[need] for need in step.needs)
        text = {
            shapes.SUCCESS: gettext("after %s"),
            shapes.FAILURE: gettext("when %s failed"),
            shapes.ALWAYS: gettext("after %s, however it ends"),
        }[step.when] % names
    if "if" in step.said:
        text = gettext("%(when)s, if %(condition)s") % {
            "when": text,
            "condition": condition_of(step, titles=titles),
        }
    return text


def condition_of(step: Step, *, titles: Mapping[str, str]) -> str:
    """`public (List photos) = true`."""
    asked = step.said["if"]
    name = gettext("params") if asked["step"] == PARAMS else titles[asked["step"]]
    where = f"{asked['path']} ({name})" if asked.get("path") else name
    return f"{where} = {value_text(asked['equals'])}"


def steps_line(definition: Definition) -> str:
    """`4 steps: people, jobs, people, job`."""
    said = [str(KIND_WORDS[step["kind"]]) for step in definition.said["steps"]]
    count = len(said)
    words = ngettext("%(count)d step: %(kinds)s", "%(count)d steps: %(kinds)s", count)
    shown = listed(said[:MAX_KINDS]) + (" …" if count > MAX_KINDS else "")
    return words % {"count": count, "kinds": shown}


class Row(NamedTuple):
    """A step in words, for the table of steps."""

    number: int
    title: str
    name: str
    kind: str | Promise
    icon: str
    what: SafeString
    begins: str
    within: str
    least: str
    notes: str
    given: str


def rows_of(definition: Definition, people: People, *, shows_given: bool) -> list[Row]:
    """The steps in the order of the definition; what they are given is for those who see
    payloads."""
    definition = without_secrets(definition)
    titles = {name: step.title for name, step in definition.steps.items()}
    steps = [definition.steps[said["name"]] for said in definition.said["steps"]]
    return [
        Row(
            number=number,
            title=step.title,
            name=step.name if step.title != step.name else "",
            kind=KIND_WORDS[step.kind],
            icon=ICONS[step.kind],
            what=what_of(step, people),
            begins=when_of(step, titles=titles),
            within=written(step.within) if step.within else "",
            least=least_of(step),
            notes=gettext("may fail") if step.is_optional else "",
            given=_given(step) if shows_given else "",
        )
        for number, step in enumerate(steps, 1)
    ]


def _given(step: Step) -> str:
    given = step.said.get("params" if step.kind == shapes.TASK else "context")
    return given_text(redact(given)) if given else ""


def outlook(
    definition: Definition, people: People, params: Mapping[str, Any] | None = None
) -> list[SafeString]:
    """The prospect of a run: the jobs that are sure, and a line for each other step; `params` are
    those that it starts with, if they are known."""
    sure, lines = 0, []
    for step in without_secrets(definition).steps.values():
        title, perhaps = format_html("<bdi>{}</bdi>", step.title), _perhaps(step)
        count = _count(step, params)
        if count is not None and not perhaps:
            sure += count
        elif step.kind == shapes.JOB:
            lines.append(format_html(gettext("a job, {}: {}"), perhaps, title))
        elif step.kind == shapes.JOBS:
            lines.append(format_html(gettext("jobs, {}: {}"), _each(step.said["each"]), title))
        elif step.kind == shapes.TASK:
            who = what_of(step, people)
            text = gettext("asks {who}: {title}")
            if perhaps:
                text = gettext("asks {who}, {perhaps}: {title}")
            lines.append(filled(text, who=who, perhaps=perhaps, title=title))
    text = ngettext("makes %d job", "makes %d jobs", sure) % sure
    return [*([format_html("{}", text)] if sure else []), *lines]


def _perhaps(step: Step) -> str:
    """The condition that keeps the step from being sure."""
    if "if" in step.said:
        return gettext("if %s") % picture.condition_of(step)
    return gettext("after a failure") if step.when == shapes.FAILURE else ""


def _count(step: Step, params: Mapping[str, Any] | None) -> int | None:
    """The number of jobs that the step makes, if it is known before the run."""
    if step.kind == shapes.JOB:
        return 1
    each = step.said.get("each")
    if isinstance(each, list):
        return len(each)
    if each is None or params is None or each[FROM] != PARAMS:
        return None
    try:
        found = looked_up({PARAMS: params}, PARAMS, each.get("path", ""))
    except Missing:
        return None
    return len(found) if isinstance(found, list) else None
