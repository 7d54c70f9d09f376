"""The steps of a flow as rows of a form, which sends them all together.

`steps-was` has the name of each row in the definition that is edited, "" of a new one, as a list in
JSON; what was typed in row 3 begins with `steps-3-`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from django import forms
from django.urls import reverse_lazy
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import labelled, listed, translate
from apps.common.admin.durations import written
from apps.common.admin.form_rows import OneRow, Rows, row_input
from apps.common.admin.key_choice import KeyInput
from apps.common.durations import seconds_of
from apps.common.errors import FieldError, PlatformError
from apps.common.json.schema import Checker
from apps.common.readers import read_integer
from apps.flows.rules import shapes, texts
from apps.flows.rules.references import FROM
from apps.flows.services.masks import masked_step, unmasked_value

# A form sends at most 1,000 values.
MAX_ROWS = 40
KINDS: Mapping[str, str | Promise] = {
    shapes.TASK: _("people"),
    shapes.JOB: _("one job"),
    shapes.JOBS: _("a job for each"),
    shapes.WAIT: _("wait"),
}
WHENS: Mapping[str, str | Promise] = {
    shapes.SUCCESS: _("they succeeded"),
    shapes.FAILURE: _("one of them failed"),
    shapes.ALWAYS: _("they ended"),
}
# What steps are given is named by their kind.
_GIVEN = {shapes.JOB: "context", shapes.JOBS: "context", shapes.TASK: "params"}
_FOLDED = ("title", "template", "within", "at_least", "max", "condition")
MAX_NAMED = 5
# Half a step is no mistake of its shape: what it lacks is said beside its row.
_SHAPES = {
    kind: Checker({**shape, "required": ["name", "kind"]}) for kind, shape in shapes.STEPS.items()
}


class _Part(NamedTuple):
    """A field of a row: the keys of a step that its text stands for, and the two ways between."""

    keys: tuple[str, ...]
    shown: Callable[[Mapping[str, Any]], str]
    read: Callable[[str], Mapping[str, Any]]


def _text(key: str) -> _Part:
    return _Part((key,), lambda step: step.get(key, ""), lambda text: {key: text})


def _number(key: str) -> _Part:
    return _Part(
        (key,),
        lambda step: "" if step.get(key) is None else str(step[key]),
        lambda text: {key: _whole(text)},
    )


def _duration(key: str) -> _Part:
    return _Part(
        (key,),
        lambda step: written(step[key]) if key in step else "",
        lambda text: {key: _seconds(text)},
    )


def _as_text(key: str, write: Callable[[Any], str], read: Callable[[str], Any]) -> _Part:
    return _Part(
        (key,),
        lambda step: write(step[key]) if key in step else "",
        lambda text: {key: read(text)},
    )


_PARTS: Mapping[str, _Part] = {
    "title": _text("title"),
    "type": _text("type"),
    "executor": _text("executor"),
    "template": _text("template"),
    "quota": _number("quota"),
    "max": _number("max"),
    "each": _as_text("each", texts.each_text, texts.read_each),
    "seconds": _duration("seconds"),
    "within": _duration("within"),
    "needs": _as_text("needs", texts.needs_text, texts.read_needs),
    "condition": _as_text("if", texts.condition_text, texts.read_condition),
    "at_least": _Part(("at_least", "unit"), texts.least_text, texts.read_least),
}
# The field that shows the faults of a key, where their names differ.
_FIELDS = {"if": "condition", "unit": "at_least", "context": "given", "params": "given"}


def _whole(text: str) -> int:
    number = read_integer(text)
    if number is None:
        raise ValueError(gettext("%s is no whole number.") % text[:40])
    return number


def _seconds(text: str) -> int:
    try:
        seconds = seconds_of(text)
    except ValueError as error:
        message = gettext("%s is no duration; write for example 30 min or 2 h.")
        raise ValueError(message % text[:40]) from error
    if seconds % 1 or seconds < 1:
        raise ValueError(gettext("Only whole seconds are possible here, from 1 on."))
    return int(seconds)


def _field(label: Any, widget: forms.Widget | None = None, **kwargs: Any) -> forms.CharField:
    """A text of any length: the check of the definition says what is too long."""
    return forms.CharField(label=label, required=False, widget=widget or row_input(), **kwargs)


def _select(label: Any, choices: Mapping[str, Any]) -> forms.ChoiceField:
    widget = forms.Select(attrs={"class": "search-input"})
    return forms.ChoiceField(label=label, choices=[*choices.items()], widget=widget)


class StepForm(OneRow):
    """The form of one row; `step` is its JSON once the form is valid, None for an empty one."""

    name = _field(_("Name"))
    kind = _select(_("Kind"), KINDS)
    title = _field(_("Title"))
    executor = _field(
        _("Who"),
        KeyInput(
            suggestions=reverse_lazy("admin:dispatch_executor_names"),
            attrs={"class": "search-input", "placeholder": "gid_… / uid_…"},
        ),
    )
    quota = _field(_("How many"), row_input(inputmode="numeric", placeholder="1"))
    is_everybody = forms.BooleanField(label=_("everybody once"), required=False)
    template = _field(_("Template"), row_input(list="flow-templates"))
    type = _field(_("Job type"), row_input(list="flow-types"))
    each = _field(_("For each of"), row_input(placeholder="$list.photos"))
    max = _field(_("At most"), row_input(inputmode="numeric"))
    given = _field(
        _("It is given"),
        forms.Textarea(
            attrs={"class": "search-input", "rows": 2, "placeholder": "shop = $params.shop"}
        ),
    )
    seconds = _field(_("How long"), row_input(placeholder=_("until somebody finishes it")))
    needs = _field(_("Waits for the steps"), row_input(placeholder="list, check"))
    when = _select(_("Begins when"), WHENS)
    condition = _field(_("Only if"), row_input(placeholder="list.public = true"))
    within = _field(_("Within"), row_input(placeholder="4 h"))
    at_least = _field(_("At least"), row_input(placeholder=_("all")))
    optional = forms.BooleanField(label=_("may fail"), required=False)

    said = _("%(field)s of step %(number)d")
    step: dict[str, Any] | None = None
    # The same with masks where the stored secrets stay.
    masked: dict[str, Any] | None = None
    # Its place in the definition that the rows make.
    place: int | None = None

    def __init__(self, data: Any, *, number: int, had: Mapping[str, Any] | None) -> None:
        """`had` is the step in the definition that is edited; `number` counts from 0."""
        # The step as the row shows it.
        self._shown = None if had is None else masked_step(had)
        initial = {} if self._shown is None else _initial(self._shown)
        super().__init__(data, prefix="steps", number=number, had=had, initial=initial)
        if data is None and had is None:
            self.initial["kind"] = shapes.TASK

    @property
    def was(self) -> str:
        return str(self.had["name"])

    @property
    def is_empty(self) -> bool:
        """Whether nothing was typed into a new row."""
        given = self.cleaned_data
        return self.had is None and not any(
            given.get(name) for name in self.fields if name not in ("kind", "when")
        )

    @property
    def others(self) -> str:
        """The keys of the step that the row does not show."""
        shown = {"name", "kind", "when", "optional", *_GIVEN.values()}
        shown.update(key for part in _PARTS.values() for key in part.keys)
        return listed(key for key in self.had or {} if key not in shown)

    @property
    def more_line(self) -> str:
        """The folded values of the row in a line: `Title: Shelf photos · Within: 4 h`."""
        parts = [
            labelled(self.fields[name].label, text)
            for name in _FOLDED
            if (text := str(self[name].value() or "").strip())
        ]
        given = str(self["given"].value() or "")
        if names := [line.partition("=")[0].strip() for line in given.splitlines()]:
            parts.append(labelled(self.fields["given"].label, listed(names[:MAX_NAMED])))
        when = str(self["when"].value() or shapes.SUCCESS)
        if when != shapes.SUCCESS:
            parts.append(labelled(self.fields["when"].label, WHENS.get(when, when)))
        if self["optional"].value():
            parts.append(str(self.fields["optional"].label))
        return " · ".join(parts)

    @property
    def opens_more(self) -> bool:
        """Whether an error is in what the row folds."""
        return self.is_bound and not self.errors.keys().isdisjoint(
            (*_FOLDED, "given", "when", "optional")
        )

    @property
    def faults(self) -> list[str]:
        """The errors of the row, each with the label of its field."""
        if not self.is_bound:
            return []
        return [
            gettext("%(field)s: %(error)s") % {"field": self.fields[name].label, "error": error}
            for name, found in self.errors.items()
            for error in found
        ]

    # --- reading ----------------------------------------------------------------------------------
    def clean(self) -> dict[str, Any]:
        given = self.cleaned_data
        if self.errors or self.is_empty:
            return given
        had, kind = dict(self.had or {}), given["kind"]
        self._masked: dict[str, Any] = {}
        allowed = shapes.STEPS[kind]["properties"]
        step = {"name": given["name"].strip(), "kind": kind}
        step |= {key: value for key, value in had.items() if key in allowed and key not in step}
        for name, part in _PARTS.items():
            if allowed.keys() >= {*part.keys}:
                self._take(step, name, part)
        if kind in _GIVEN:
            self._take_given(step, _GIVEN[kind])
        if kind == shapes.TASK and given["is_everybody"]:
            step["quota"] = None
        elif step.get("quota", 1) is None:
            del step["quota"]
        _keep(step, "when", given["when"], shapes.SUCCESS)
        _keep(step, "optional", given["optional"], False)
        self.step = step
        self.masked = {**step, **self._masked}
        return given

    def _take(self, step: dict[str, Any], name: str, part: _Part) -> None:
        text, shown = self.cleaned_data[name].strip(), self._shown
        if shown is not None and text == part.shown(shown):
            self._masked |= {key: shown[key] for key in part.keys if key in shown}
            return
        for key in part.keys:
            step.pop(key, None)
        if text:
            self._read(step, name, lambda: part.read(text), self.had or {})

    def _take_given(self, step: dict[str, Any], key: str) -> None:
        step.pop(key, None)
        stored, shown, text = _given(self.had), _given(self._shown), self.given_text
        if shown is not None and text == texts.given_text(shown):
            step[key], self._masked[key] = stored, shown
        elif text:
            self._read(step, "given", lambda: {key: texts.read_given(text)}, {key: stored})

    def _read(
        self,
        step: dict[str, Any],
        name: str,
        read: Callable[[], Mapping[str, Any]],
        stored: Mapping[str, Any],
    ) -> None:
        """Put what was typed into the step, with the secrets of the stored one behind its masks."""
        try:
            typed = read()
            step |= {key: unmasked_value(key, value, stored) for key, value in typed.items()}
        except ValueError as error:
            self.add_error(name, translate(error.args[0]))
        except PlatformError as error:
            self.add_error(name, translate(error.detail))
        else:
            self._masked |= typed

    @property
    def given_text(self) -> str:
        """The typed text of what the step is given."""
        text: str = self.cleaned_data["given"]
        return text.replace("\r\n", "\n").strip()

    def show(self, fault: FieldError, path: str) -> None:
        """Add a fault at this path of the step, such as `context.shop`, to its field."""
        key, _dot, below = path.partition(".")
        key = key.partition("[")[0]
        field = _FIELDS.get(key, key)
        message = translate(fault.message)
        if field not in self.fields:
            field, below = "name", path
        self.add_error(field, f"{below}: {message}" if below else message)


def _given(had: Mapping[str, Any] | None) -> Any:
    """The context or params of the stored step, None for none."""
    return next((had[name] for name in _GIVEN.values() if name in had), None) if had else None


def _keep(step: dict[str, Any], key: str, value: Any, usual: Any) -> None:
    """Put the value into the step, unless it is the usual one and the step says nothing of it."""
    if value != usual:
        step[key] = value
    elif step.get(key, usual) != usual:
        del step[key]


def _initial(shown: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the fields for a step as it is shown."""
    given = _given(shown)
    return {
        **{name: part.shown(shown) for name, part in _PARTS.items()},
        "name": shown["name"],
        "kind": shown["kind"],
        "when": shown.get("when", shapes.SUCCESS),
        "optional": shown.get("optional", False),
        "is_everybody": shown.get("quota", 1) is None,
        "given": "" if given is None else texts.given_text(given),
    }


def why_not_rows(definition: Mapping[str, Any]) -> str:
    """The reason why rows cannot say the steps of a definition; "" when they can."""
    steps = definition.get("steps")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        return gettext("Its steps are no list of steps.")
    if len(steps) > MAX_ROWS:
        return gettext("It has more than %d steps, the most that rows show.") % MAX_ROWS
    names = [step.get("name") for step in steps]
    for position, step in enumerate(steps):
        if step.get("kind") not in shapes.KINDS:
            return gettext("Step %d is of no kind that there is.") % (position + 1)
        if faults := _SHAPES[step["kind"]].faults(step, field=f"steps[{position}]"):
            return translate(faults[0].named)
        if names.count(names[position]) > 1:
            return gettext("Two steps are called %s.") % str(names[position])[:80]
        each = step.get("each")
        if isinstance(each, dict) and not isinstance(each.get(FROM), str):
            text = gettext("In step %d, each is neither a list nor a reference to one.")
            return text % (position + 1)
    return ""


STEPS = Rows("steps", StepForm, MAX_ROWS, "step-")


def stored_steps(definition: Mapping[str, Any]) -> list[StepForm]:
    """The rows of a definition that rows can say."""
    found = [StepForm(None, number=n, had=step) for n, step in enumerate(definition["steps"])]
    for form in found:
        form.place = form.number
    return found


def sent_steps(data: Any, definition: Mapping[str, Any]) -> list[StepForm]:
    """The rows that were sent, which change the definition."""
    had = {step["name"]: step for step in definition["steps"]}
    names = enumerate(STEPS.names_in(data))
    found = [StepForm(data, number=n, had=had.get(name)) for n, name in names]
    place = 0
    for form in found:
        if form.is_valid() and form.step is not None:
            form.place = place
            place += 1
    return found
