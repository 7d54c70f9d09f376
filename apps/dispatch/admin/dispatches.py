"""Dispatches in the admin: what was handed out to whom, and the three ways to step in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from apps.common import clock
from apps.common.admin.actions import ReasonAction
from apps.common.admin.bulk_links import links
from apps.common.admin.buttons import Button
from apps.common.admin.columns import ListColumn
from apps.common.admin.display import (
    column,
    duration_of,
    error_column,
    in_lists,
    shown_text,
    state_label,
    time_column,
)
from apps.common.admin.filters import DayFilter, FormFilter, InstantFilter, list_filters
from apps.common.admin.html import link, list_url, page_url
from apps.common.admin.json_fields import json_field
from apps.common.admin.keyset import KeysetAdmin
from apps.common.admin.list_head import NextStep, keys_if_counted
from apps.common.admin.machine_rows import MachineRowAdmin
from apps.common.admin.pages import Panel
from apps.common.admin.parts import part_of, read_wholes
from apps.common.admin.payload_filter import PayloadFilter
from apps.common.admin.result_words import result_words
from apps.common.admin.row_page import Fact, RowPageAdmin
from apps.common.admin.timeline import Moment
from apps.common.admin.two_tables import TwoTablesAdmin
from apps.common.masking import redact
from apps.common.readers import read_key, read_number
from apps.dispatch.admin import dispatch_head
from apps.dispatch.admin.dispatch_states import STATE_COLOURS, state_in_list, time_left
from apps.dispatch.admin.filters import ExecutorFilter, PartOfFilter
from apps.dispatch.admin.give import GIVE_URL, give_view
from apps.dispatch.admin.people import person_column
from apps.dispatch.admin.summary_fields import summary_fields
from apps.dispatch.models import TASK_MODELS, AnyDispatch, ArchivedDispatch, Dispatch, Template
from apps.dispatch.models.dispatch import IS_OPEN
from apps.dispatch.rules import dispatch_verbs as verbs
from apps.dispatch.rules import names
from apps.dispatch.services import ending
from apps.dispatch.services.filtered import (
    ArchivedDispatchFilters,
    DispatchFilters,
    keys_if_few,
    overdue,
    users_behind,
)
from apps.dispatch.services.handing import ask_again
from apps.dispatch.services.parts import parts
from apps.journal.admin import latest_moments
from apps.journal.models import Source as JournalSource

_USUAL = (
    ListColumn("state", "shown_state", ("state",)),
    ListColumn("executor", "executor_link", ("executor",)),
    ListColumn("task", "task_by_title", ("source", "task_id", "title")),
    ListColumn("handed_out", "shown_dispatched_at", ("dispatched_at",)),
    ListColumn("took", "took", ("dispatched_at", "finished_at")),
    ListColumn("result", "in_words"),
)
USUAL = tuple(each.shown for each in _USUAL)
COLUMNS = (
    *_USUAL,
    ListColumn("number", "id", ("id",)),
    ListColumn("deadline", "shown_deadline_at", ("deadline_at",)),
    ListColumn("finished", "shown_finished_at", ("finished_at",)),
    ListColumn("due", "shown_occurrence_at", ("occurrence_at",)),
    ListColumn("template", "template_label"),
    ListColumn("round", "shown_round", ("round",)),
    ListColumn("redo", "redo"),
)


class HandedOutFilter(DayFilter):
    title = _("handed out")


def dispatch_filters(
    filters: type[DispatchFilters], **looks: type[FormFilter]
) -> tuple[type[FormFilter], ...]:
    """The filters of a list of dispatches, live or archived."""
    looks |= {"executor": ExecutorFilter, "part_of": PartOfFilter, "where": PayloadFilter}
    return (*list_filters(filters, **looks), HandedOutFilter, InstantFilter)


def _is_open(dispatch: Dispatch) -> bool:
    return dispatch.is_open


def _quoted_message(message: str) -> str:
    return f"“{shown_text(redact(message), limit=80)}”" if message else ""


def _can_be_asked_again(dispatch: Dispatch) -> bool:
    return not dispatch.is_open and dispatch.state != Dispatch.State.CANCELLED


def _schema_of(dispatch: AnyDispatch) -> Any:
    if not dispatch.template_name:
        return None
    key = {"name": dispatch.template_name, "version": dispatch.template_version}
    return Template.objects.filter(**key).values_list("schema", flat=True).first()


class DispatchAdmin(RowPageAdmin, TwoTablesAdmin, KeysetAdmin, MachineRowAdmin):
    """A page reads as many rows as it shows, or `max_examined` of the primary key.

    Those of one user, or of one task, are found newest first by an index; open ones, those of a
    group and those of tasks of either kind by one while they are few.
    """

    other_model: ClassVar[type[AnyDispatch]] = ArchivedDispatch
    when_empty = _("A dispatch is written whenever a task is handed out.")
    next_steps = (
        NextStep(_("Plan a task"), "admin:dispatch_oncetask_add", "dispatch.add_oncetask"),
    )
    list_display = USUAL
    list_columns: ClassVar[Sequence[ListColumn]] = COLUMNS
    list_mobile = (
        ("shown_state", "executor_link", "task_by_title"),
        ("shown_dispatched_at", "took", "in_words"),
    )
    list_after_template = "admin/includes/older_in_archive.html"
    list_select_related = ("executor",)
    list_filter: ClassVar[Any] = dispatch_filters(DispatchFilters)
    list_tabs = "state"
    custom_urls: ClassVar[Any] = (("<int:pk>/give/", GIVE_URL, give_view),)
    tabs_beside: ClassVar[Any] = (("overdue", "True", _("Overdue")),)
    list_defer = ("params", "result", "message")
    export_columns = (
        *(("id", "id"), ("executor", "executor.name"), ("source", "source"), ("task_id", "task")),
        *(("title", "title"), ("state", "state"), ("occurrence_at", "occurrence_at")),
        *(("dispatched_at", "dispatched_at"), ("deadline_at", "deadline_at")),
        *(("finished_at", "finished_at"), ("round", "round"), ("counts_to_quota", "holds_stock")),
    )
    search_help_text = _("Number or person, or params.path:value")
    exact_search = (("pk", read_number), ("executor__name", read_key))
    actions: tuple[str, ...] = ("release", "expire", "cancel", "ask_again")
    shown_facts: ClassVar[tuple[Fact, ...]] = (
        *("id", "task_link", part_of, "template_label"),
        *("shown_occurrence_at", "shown_dispatched_at"),
        *("shown_deadline_at", "shown_finished_at", "shown_round", "redo", "holds_stock"),
    )

    shown_state = in_lists(
        state_label("state", STATE_COLOURS, _("state"), ordering=False), state_in_list
    )
    shown_occurrence_at = time_column("occurrence_at", _("due"))
    shown_dispatched_at = time_column("dispatched_at", _("handed out"))
    shown_deadline_at = time_column("deadline_at", _("deadline"))
    shown_finished_at = time_column("finished_at", _("finished"))
    shown_message = error_column("message", _("message"))
    shown_params = json_field("params", _("params"), _schema_of)
    shown_result = json_field("result", _("result"))

    # --- the list ---------------------------------------------------------------------------------
    def list_context(self, request: HttpRequest, changelist: Any) -> dict[str, Any]:
        older = "" if changelist.has_further_rows else self.older_url(request)
        # Nothing is done with archived ones, and a bulk run is about the live ones.
        may_act = self.has_operate_permission(request)
        return {
            **super().list_context(request, changelist),
            "bulk_links": links(changelist, "dispatches", verbs.VERBS if may_act else {}),
            "older_url": older,
        }

    def tab_counts(self, request: HttpRequest, others: Mapping[str, str]) -> Mapping[str, int]:
        """The counts of open and overdue dispatches; other states have neither few rows nor an
        index."""
        if others:
            return {}
        in_flight = self.get_queryset(request).filter(IS_OPEN)
        late = keys_if_counted(overdue(in_flight))
        return {Dispatch.State.OPEN: len(keys_if_counted(in_flight)), "overdue": len(late)}

    def first_rows(self, request: HttpRequest, rows: QuerySet[Any]) -> list[Any]:
        """The newest open dispatches."""
        return self.newest_first(rows, keys_if_counted(rows.filter(IS_OPEN)))

    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        ended = [row for row in rows if not row.is_open]
        said = self.model._default_manager.filter(pk__in=[row.pk for row in ended])
        if not self.has_payload_permission(request):
            messages = dict(said.values_list("pk", "message")) if ended else {}
            for row in rows:
                row.words = _quoted_message(messages.get(row.pk, ""))
            return
        found = {pk: rest for pk, *rest in said.values_list("pk", "result", "message")}
        templates = {row.pk: (row.template_name, row.template_version) for row in ended}
        fields = summary_fields(templates.values())
        for row in rows:
            result, message = found.get(row.pk, (None, ""))
            named = fields.get(templates.get(row.pk, ("", 0)), ())
            row.words = result_words(result, named) or _quoted_message(message)

    def older_url(self, request: HttpRequest) -> str:
        """The list of the archive, with the filters of this one but for the time."""
        asked = {name: request.GET.get(name) for name in ArchivedDispatchFilters.listed()}
        kept = {name: value for name, value in asked.items() if value}
        return list_url(ArchivedDispatch, **kept)

    # --- what is found ----------------------------------------------------------------------------
    def found_by_index(
        self, rows: QuerySet[Any], given: Mapping[str, str], term: str
    ) -> Sequence[int] | None:
        if (number := read_number(term)) is not None:
            return [number]
        if self.has_index_in_order(given, term):
            return None
        wanted = DispatchFilters.read_address({**given, "q": term}, get_current_timezone())
        return keys_if_few(rows, wanted, most=self.max_indexed)

    def has_index_in_order(self, given: Mapping[str, str], term: str) -> bool:
        who = term or given.get("executor", "")
        is_of_one = names.is_name(who) and not names.is_group(who)
        of_task = given.get("source") and given.get("task")
        return is_of_one or bool(of_task or given.get("part_of"))

    def in_order(self, rows: QuerySet[Any], given: Mapping[str, str], term: str) -> QuerySet[Any]:
        who = term or given.get("executor", "")
        if names.is_name(who) and not names.is_group(who):
            return rows.filter(executor__in=users_behind(who))
        if number := given.get("part_of"):
            return DispatchFilters.narrow(rows, DispatchFilters.read({"part_of": number}))
        return rows.filter(source=given["source"], task=given["task"])

    # --- the page ---------------------------------------------------------------------------------
    def top_panels(self, request: HttpRequest, row: Any) -> list[Panel]:
        state = self.shown_state(row)
        panels = [dispatch_head.head(row, state, self._task_url(row))]
        if row.message:
            message = format_html('<p class="row-message">{}</p>', self.shown_message(row))
            panels.append(Panel(_("Message"), message))
        if self.has_payload_permission(request, row):
            if row.result is not None:
                panels.append(Panel(_("Result"), self.shown_result(row)))
            panels.append(Panel(_("Params"), self.shown_params(row)))
        return panels

    def aside(self, request: HttpRequest, row: Any) -> list[Panel]:
        read_wholes([row], parts, request.user)
        found = dispatch_head.others(row, self.get_queryset(request))
        return [self.facts(row, self.shown_facts), *([] if found is None else [found])]

    def buttons(self, request: HttpRequest, row: Any) -> list[Button]:
        found = super().buttons(request, row)
        if row.is_open and self.has_operate_permission(request):
            url = self.url("give", row.pk)
            found.insert(0, Button(url=url, text=_("Give to…"), icon="move_up"))
        return found

    # --- columns ----------------------------------------------------------------------------------
    executor_link = person_column

    @column(_("task"))
    def task_link(self, dispatch: Dispatch) -> SafeString:
        return link(self._task_url(dispatch), dispatch.task_label)

    def _task_url(self, dispatch: Dispatch) -> str:
        model = TASK_MODELS.get(dispatch.source)
        return "" if model is None else page_url(model, dispatch.task)

    @column(_("task"))
    def task_by_title(self, dispatch: Dispatch) -> SafeString:
        title = shown_text(dispatch.title, limit=80)
        return link(self._task_url(dispatch), title, title=dispatch.task_label)

    @column(_("took"))
    def took(self, dispatch: Dispatch) -> str | None:
        """The time from the hand-out to the end; of an open dispatch to now."""
        end = clock.now() if dispatch.is_open else dispatch.finished_at
        if end is None:
            return None
        return duration_of((end - dispatch.dispatched_at) // timedelta(milliseconds=1))

    @column(_("result"))
    def in_words(self, dispatch: Any) -> SafeString | str | None:
        """The result of an ended dispatch; the time left or late of an open one."""
        if not dispatch.is_open:
            return dispatch.words or None
        return time_left(dispatch)

    @column(_("try"))
    def shown_round(self, dispatch: Dispatch) -> int:
        """The round, from 1 on, as the rounds of a task are counted."""
        return dispatch.round + 1

    @column(_("template"))
    def template_label(self, dispatch: Dispatch) -> str | None:
        if not dispatch.template_name:
            return None
        return f"{dispatch.template_name} v{dispatch.template_version}"

    def row_label(self, row: Dispatch) -> str:
        return f"{row.pk} · {row.executor.shown} · {row.title}"

    def timeline(self, request: HttpRequest, row: AnyDispatch) -> Sequence[Moment]:
        """The moments of the dispatch and of the same user's earlier rounds."""
        shows_payload = self.has_payload_permission(request)
        numbers = [*dispatch_head.rounds_before(row), row.pk]
        source, user = JournalSource.DISPATCH, request.user
        return latest_moments(source, *numbers, user=user, shows_payload=shows_payload)

    @ReasonAction(
        description=_("Release"),
        permission="operate",
        question=_(
            "Give them back unfinished? They count as left again. The same person may get the "
            "task again after the lease time, others at once."
        ),
        icon="undo",
        offered=_is_open,
        verb=verbs.VERBS[verbs.RELEASE],
    )
    def release(self, row: Dispatch, *, reason: str, actor: str) -> bool:
        if row.state == Dispatch.State.RELEASED:
            return False
        ending.release(dispatch=row, actor=actor, reason=reason)
        return True

    @ReasonAction(
        description=_("Expire"),
        permission="operate",
        question=_(
            "End them as if their deadlines had passed? The task's setting “on expiry” "
            "decides what follows."
        ),
        icon="timer_off",
        offered=_is_open,
        verb=verbs.VERBS[verbs.EXPIRE],
    )
    def expire(self, row: Dispatch, *, reason: str, actor: str) -> bool:
        if row.state == Dispatch.State.EXPIRED:
            return False
        ending.expire_now(dispatch=row, actor=actor, reason=reason)
        return True

    @ReasonAction(
        description=_("Cancel"),
        permission="operate",
        question=_(
            "Cancel them? This is final. They count as left again, and the same person never "
            "gets this occurrence again."
        ),
        icon="cancel",
        offered=_is_open,
        verb=verbs.VERBS[verbs.CANCEL],
    )
    def cancel(self, row: Dispatch, *, reason: str, actor: str) -> bool:
        if row.state == Dispatch.State.CANCELLED:
            return False
        ending.cancel(dispatch=row, actor=actor, reason=reason)
        return True

    @ReasonAction(
        description=_("Ask again…"),
        permission="operate",
        question=_(
            "Hand the same occurrence to the same person again, with a new deadline? The place in "
            "the quota goes over to the new dispatch, and the present result stays readable."
        ),
        done=ngettext_lazy("%d person asked again.", "%d people asked again."),
        icon="replay",
        offered=_can_be_asked_again,
    )
    def ask_again(self, row: Dispatch, *, reason: str, actor: str) -> bool:
        ask_again(dispatch=row, actor=actor, reason=reason)
        return True


admin.site.register(Dispatch, DispatchAdmin)
