"""What a page does is said, and what a template names hides nothing that Django's pages need."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib import admin

from apps.bulk.services.targets import TARGETS
from apps.common.admin.actions import specs
from apps.journal.admin.words import EVENTS

ROOT = Path(__file__).resolve().parents[2]
# Of the contexts of Django's and unfold's pages: `change` hidden by a row makes a form add one.
OF_DJANGO = {
    *("add", "change", "original", "opts", "media", "adminform", "errors", "object_id", "cl"),
    *("has_add_permission", "has_change_permission", "has_view_permission", "save_as"),
    *("form_url", "is_popup", "to_field", "inline_admin_formsets", "preserved_filters"),
    *("user", "perms", "request", "messages", "csrf_token", "block", "available_apps"),
    *("is_nav_sidebar_enabled", "site_title", "site_header", "title", "subtitle"),
}
_NAMED = re.compile(r"{%-? (?:for ([\w, ]+) in|[^%]*? as (\w+)|blocktrans\w* asvar (\w+))\b[^%]*%}")
# Where a heading, an inclusion or a row of links is named so, and nothing of the page is inside.
_ITS_OWN = {"title", "subtitle"}
# What takes something away from others: its buttons are red.
DANGEROUS = {
    *("apiclient: revoke", "bulkrun: stop_run", "dispatch: cancel", "executor: disable"),
    *(
        "flowrun: stop",
        "flowrun: stop_by_force",
        "inboxrow: discard",
        "job: cancel",
        "job: force_cancel",
        "job: mark_done",
    ),
    *("oncetask: delete", "oncetask: delete_task", "oncetask: end", "schedule: delete"),
    *("rotatetask: delete", "rotatetask: delete_task", "rotatetask: end"),
}
# Events that only the platform, a worker or somebody who is asked for work writes.
OF_MACHINES = {
    *("archived", "extended", "failed", "gave_up", "interrupted", "late_result", "left", "lost"),
    *("problem_back", "purged", "registered", "sign_in_failed", "sign_in_locked", "stage_done"),
    *("stale", "succeeded", "timed_out", "yielded"),
}


def test_no_template_hides_what_djangos_pages_need() -> None:
    hidden = []
    for path in (ROOT / "templates").rglob("*.html"):
        for found in _NAMED.finditer(path.read_text()):
            in_loop, *bound = (group or "" for group in found.groups())
            names = {name.strip() for name in in_loop.split(",")} - _ITS_OWN | {*bound}
            hidden += [(path.name, name) for name in names & OF_DJANGO]
    assert hidden == []


def test_no_context_of_ours_hides_what_djangos_pages_need() -> None:
    """What `head`, `list_context` and panels add to a page of Django."""
    hidden = []
    for path in [*(ROOT / "apps").rglob("admin/**/*.py"), *(ROOT / "taskplatform").glob("*.py")]:
        source = path.read_text()
        is_parsed = "def head(" in source or "def list_context(" in source
        for node in ast.walk(ast.parse(source)) if is_parsed else ():
            if isinstance(node, ast.FunctionDef) and node.name in ("head", "list_context"):
                keys = {
                    key.value
                    for each in ast.walk(node)
                    if isinstance(each, ast.Dict)
                    for key in each.keys
                    if isinstance(key, ast.Constant)
                }
                hidden += [(path.name, name) for name in keys & OF_DJANGO]
    assert hidden == []


def test_what_takes_something_away_looks_dangerous() -> None:
    acts: list[tuple[Any, Mapping[str, Any]]] = [
        *((target.model, target.verbs) for target in TARGETS.values()),
        *((model, specs(model_admin)) for model, model_admin in admin.site._registry.items()),
    ]
    found = {
        f"{model._meta.model_name}: {name}"
        for model, named in acts
        for name, each in named.items()
        if each.is_dangerous
    }
    assert found == DANGEROUS


def test_every_act_of_people_is_told_as_a_sentence() -> None:
    """An event that is none of those has `said`, so that *Activity* tells who did what."""
    # Pages of no model have words, too.
    import_module(settings.ROOT_URLCONF)
    assert {name for name, event in EVENTS.items() if not event.said} == OF_MACHINES


def test_every_act_is_reported() -> None:
    """In the journal in words; and what leaves its report to the bar of the undo has one there."""
    verbs = [verb for target in TARGETS.values() for verb in target.verbs.values()]
    assert {verb.event for verb in verbs} - EVENTS.keys() == set()
    kinds = {target.model._meta.label_lower: target for target in TARGETS.values()}
    unsaid = []
    for model, model_admin in admin.site._registry.items():
        made: Any = model_admin
        names = [spec.verb.name for spec in specs(made).values() if spec.is_undone]
        names += [made.undone_by] if getattr(made, "undone_by", "") else []
        label, *_others = getattr(model, "archive_of", (model._meta.label,))
        target = kinds.get(label.lower())
        for name in names:
            verb = target and target.verbs.get(name)
            if verb is None or not verb.is_undone:
                unsaid.append((model.__name__, name))
    assert unsaid == []
