"""The words of dispatch in the journal."""

from __future__ import annotations

import json
from typing import Any

from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import translate
from apps.common.errors import Invalid
from apps.dispatch.admin.tasks import MODE_WORDS
from apps.dispatch.models import Dispatch, Executor, OnceTask, RotateTask, Template
from apps.dispatch.rules.plan import ONCE, ROTATE
from apps.dispatch.rules.recurrence import parse_rule
from apps.dispatch.rules.summary import in_words
from apps.dispatch.services.archive import OVER
from apps.dispatch.services.ending import OVERDUE
from apps.journal.admin.words import CHANGED, Event, pages_by_name, register
from apps.journal.models import JournalEntry, Source

_task_page = pages_by_name({ONCE: "dispatch_oncetask", ROTATE: "dispatch_rotatetask"})
# Of people, groups and templates, which entries call by their kind alone.
_OTHER_PAGES = {
    "executor": "dispatch_executor",
    "members": "dispatch_executor",
    "queue": "dispatch_executor",
    "template": "dispatch_template",
}


def _plan_page(entry: JournalEntry) -> str:
    return _task_page(entry) or _OTHER_PAGES.get(entry.event.partition("_")[0], "")


def _rule_words(value: Any) -> str:
    """The rule of a recurrence in words; what cannot be read as it is stored."""
    try:
        return translate(in_words(parse_rule(value)))
    except Invalid:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


register(
    OnceTask,
    RotateTask,
    Executor,
    Template,
    Dispatch,
    people=("executor", "executors", "to", "add", "remove", "copies"),
    formatters={"rule": _rule_words},
    events={
        "handed_out": Event(_("Handed out"), "outbox", "info", said=_("handed out {what}")),
        "extended": Event(_("Deadline extended"), "more_time", "info"),
        "succeeded": Event(_("Succeeded"), "check_circle", "success"),
        "failed": Event(_("Failed"), "error", "danger"),
        "expired": Event(_("Expired"), "timer_off", "warning", said=_("let {what} expire")),
        "released": Event(_("Released"), "undo", said=_("released {what}")),
        "handed_over": Event(_("Handed over"), "move_up", said=_("handed {what} over to {to}")),
        "cancelled": Event(_("Cancelled"), "cancel", said=_("cancelled {what}")),
        "asked_again": Event(_("Asked again"), "replay", "info", said=_("asked for {what} again")),
        "late_result": Event(_("Late result"), "schedule", "warning"),
        "task_created": Event(_("Task created"), "add_circle", "success", said=_("created {what}")),
        "task_changed": Event(_("Task changed"), "edit", "info", said=CHANGED),
        "task_copied": Event(_("Task copied"), "content_copy", "info", said=_("copied {what}")),
        "task_deleted": Event(_("Task deleted"), "delete", "danger", said=_("deleted {what}")),
        "archived": Event(_("Moved to the older ones"), "inventory_2"),
        "restored": Event(
            _("Back from the older ones"),
            "unarchive",
            "info",
            said=_("brought {what} back from the older ones"),
        ),
        "purged": Event(_("Old rows removed"), "delete_sweep"),
        "tasks_imported": Event(
            _("Tasks imported"),
            "upload",
            "success",
            said=_("imported tasks from a file, {rows} in all"),
        ),
        "executor_created": Event(
            _("Person or group added"), "add_circle", "success", said=_("added {what}")
        ),
        "executor_changed": Event(_("Person or group changed"), "edit", "info", said=CHANGED),
        "queue_rebuilt": Event(
            _("Queue rebuilt"), "refresh", said=_("rebuilt the queue of {what}")
        ),
        "executor_deleted": Event(
            _("Person or group deleted"), "delete", "danger", said=_("deleted {what}")
        ),
        "members_changed": Event(
            _("Members changed"), "group", "info", said=_("changed the members of {what}")
        ),
        "template_version": Event(
            _("Template version"), "add_circle", "success", said=_("saved {what}")
        ),
        "template_status": Event(_("Template status"), "toggle_on", "info", said=CHANGED),
        "template_deleted": Event(
            _("Template deleted"), "delete", "danger", said=_("deleted {what}")
        ),
    },
    states={
        "open": _("open"),
        "succeeded": _("succeeded"),
        "failed": _("failed"),
        "expired": _("expired"),
        "released": _("released"),
        "cancelled": _("cancelled"),
        "active": _("active"),
        "paused": _("paused"),
        "deleted": _("deleted"),
        "retired": _("retired"),
    },
    names={
        "version": _("version"),
        "add": _("add"),
        "archived_dispatches": _("older dispatches"),
        "archived_tasks": _("older tasks"),
        "asked_as": _("as dispatch"),
        "copied_from": _("copied from"),
        "copies": _("copies"),
        "dispatches": _("dispatches"),
        "once_tasks": _("once tasks"),
        "outcome": _("outcome"),
        "remove": _("remove"),
        "rotate_tasks": _("repeating tasks"),
        "stocks": _("quotas"),
    },
    # Shorter than the labels of forms, which explain the choices.
    choices={
        "misfire": {"skip": _("skip"), "once": _("once"), "all": _("all")},
        "mode": MODE_WORDS,
        "on_failure": {
            "finish": _("finish"),
            "give_back": _("give back"),
            "retry_same": _("retry"),
        },
        "on_expiry": {"give_back": _("give back"), "keep": _("keep")},
        "outcome": {"succeeded": _("succeeded"), "failed": _("failed")},
    },
    messages=(OVER, OVERDUE),
    pages={Source.DISPATCH: lambda entry: "dispatch_dispatch", Source.PLAN: _plan_page},
)
