"""Executors in the admin: users, groups and their members."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Count
from django.http import HttpRequest, JsonResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import format_lazy
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldBooleanSwitchWidget

from apps.common.admin.actions import ReasonAction
from apps.common.admin.changelist import tidy_search
from apps.common.admin.display import column, listed, shown_text, state_label, time_column
from apps.common.admin.filters import list_filters
from apps.common.admin.html import link, list_url, page_url
from apps.common.admin.key_choice import KeyInput
from apps.common.admin.pages import Panel
from apps.common.admin.service import ServiceForm, ServiceModelAdmin
from apps.common.admin.who import who
from apps.common.readers import read_number
from apps.dispatch.admin.dispatch_states import time_left
from apps.dispatch.admin.executor_blockers import FIRST_DAY, blocker_sentences
from apps.dispatch.admin.executor_csv import ExecutorCsvPages
from apps.dispatch.admin.executor_page import executor_panels, first_panels, rebuild_view
from apps.dispatch.admin.explain import explain_view, why_nothing_view
from apps.dispatch.admin.filters import NAMES_URL, ExecutorFilter, SilentFilter
from apps.dispatch.models import Dispatch, Executor, Membership, OnceTask, OperatorScope
from apps.dispatch.rules import names
from apps.dispatch.services import executors, silent_people
from apps.dispatch.services.filtered import ExecutorFilters
from apps.journal.admin import RecordedAdmin

KIND_COLOURS = {Executor.Kind.USER: "info", Executor.Kind.GROUP: "primary"}
MAX_SUGGESTIONS = 20


class NamesField(forms.CharField):
    """Names of users, picked one after another; the value is a list."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            required=False,
            max_length=executors.MAX_MEMBERS_AT_ONCE * (names.MAX_CHARACTERS + 2),
            widget=KeyInput(suggestions=format_lazy("{}?kind=user", NAMES_URL), takes_several=True),
            **kwargs,
        )

    def clean(self, value: Any) -> Any:
        return list(dict.fromkeys(re.findall(r"[^\s,;]+", super().clean(value))))


class ExecutorForm(ServiceForm):
    """`visible` are the executors that the operator may see, and may therefore add."""

    visible = Executor.objects.all()
    add_members = NamesField(
        label=_("Add members"),
        help_text=_("Type a part of a name or title, and pick; then the next one."),
    )
    makes_new = forms.BooleanField(
        label=_("Also make those that do not exist yet"),
        required=False,
        widget=UnfoldBooleanSwitchWidget,
    )
    remove_members = NamesField(
        label=_("Remove members"), help_text=_("Type a part of a name, and pick.")
    )

    class Meta:
        model = Executor
        fields = ("name", "title", "enabled")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk is None:
            self.fields["name"].help_text = _("uid_… for a person, gid_… for a group of people.")
        leaving: Any = self.fields["remove_members"].widget
        leaving.suggestions = f"{NAMES_URL}?group={self.instance.pk or 0}"

    def clean_add_members(self) -> list[str]:
        added: list[str] = self.cleaned_data["add_members"]
        # Joining a group would otherwise bring a stranger into the operator's view.
        known = Executor.objects.filter(name__in=added).exclude(pk__in=self.visible.values("pk"))
        if hidden := sorted(known.values_list("name", flat=True)):
            raise ValidationError(gettext("You may not add %s.") % listed(hidden[:10]))
        return added

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean() or self.cleaned_data
        added = cleaned.get("add_members") or []
        known = Executor.objects.names_among(added) if added else ()
        users = [n for n in added if names.is_name(n) and names.kind_of(n) == names.USER]
        unknown = [name for name in users if name not in set(known)]
        is_few = len(added) <= executors.MAX_MEMBERS_AT_ONCE
        if unknown and is_few and not cleaned.get("makes_new"):
            text = gettext(
                "There is nobody called %(names)s yet. Correct it, or switch on “%(switch)s”."
            )
            switch = self.fields["makes_new"].label
            told = {"names": listed(unknown[:10]), "switch": switch}
            self.add_error("add_members", text % told)
        return cleaned

    def field_of(self, path: str) -> str | None:
        listed = {"add": "add_members", "remove": "remove_members"}
        return listed.get(path.partition("[")[0]) or super().field_of(path)

    @property
    def own_changes(self) -> dict[str, Any]:
        """The changes of the executor itself, without its members."""
        return {name: value for name, value in self.changes.items() if name in {"title", "enabled"}}


def names_view(request: HttpRequest, *, model_admin: Any) -> JsonResponse:
    """`{"names": […], "labels": […]}`: up to 20 executors whose name starts with `term`, then those
    with it in their title, for suggestions. `kind` and the id of a `group` narrow them."""
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    rows = model_admin.get_queryset(request).order_by("name")
    if (kind := request.GET.get("kind")) in Executor.Kind.values:
        rows = rows.filter(kind=kind)
    if group := read_number(request.GET.get("group", "")):
        rows = rows.filter(memberships__group=group)
    term = tidy_search(request.GET.get("term", ""))
    found = list(rows.filter(name__startswith=term)[:MAX_SUGGESTIONS])
    if term and len(found) < MAX_SUGGESTIONS:
        others = rows.filter(title__icontains=term).exclude(name__startswith=term)
        found += others[: MAX_SUGGESTIONS - len(found)]
    members = Membership.objects.filter(group__in=[row.pk for row in found if row.is_group])
    counts = dict(members.order_by().values_list("group").annotate(Count("pk")))
    labels = [_suggested(row, counts.get(row.pk, 0)) for row in found]
    return JsonResponse({"names": [row.name for row in found], "labels": labels})


def _suggested(row: Executor, count: int) -> str:
    """`Photo check · 8 people`, or the title of a person."""
    people = ngettext("%d person", "%d people", count) % count if row.is_group else ""
    return " · ".join(filter(None, [row.title, people]))


class ExecutorAdmin(RecordedAdmin, ServiceModelAdmin):
    form = ExecutorForm
    csv_pages = ExecutorCsvPages
    custom_urls = (
        ("names/", "dispatch_executor_names", names_view),
        ("explain/", "dispatch_executor_explain", explain_view),
        ("<int:pk>/why/", "dispatch_executor_why", why_nothing_view),
        ("<int:pk>/rebuild/", "dispatch_executor_rebuild", rebuild_view),
    )
    is_removable = True
    folds_history = True
    when_empty = _("Tasks are addressed to people (uid_…) and to groups of them (gid_…).")
    list_display = (
        "shown_name",
        "shown_kind",
        "enabled",
        "belongs",
        "in_hand",
        "open_tasks",
        "shown_last_seen_at",
    )
    list_mobile = (
        ("shown_name", "shown_kind"),
        ("belongs", "in_hand", "open_tasks", "shown_last_seen_at"),
    )
    list_if_any = ("in_hand",)
    list_place = "kind"
    list_tabs = "silent"
    list_filter = list_filters(ExecutorFilters, group=ExecutorFilter, silent=SilentFilter)
    search_fields = ("name", "title")
    search_help_text = _("Part of a name or title")
    ordering = ("name",)
    actions = ("enable", "disable")

    shown_kind = state_label("kind", KIND_COLOURS, _("kind"))
    shown_last_seen_at = time_column("last_seen_at", _("last seen"), ordering="last_seen_at")

    # --- the list ---------------------------------------------------------------------------------
    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        pks = [row.pk for row in rows]
        of = Membership.objects.filter
        members = of(group__in=pks).values_list("group").annotate(Count("pk"))
        groups = of(user__in=pks).values_list("user").annotate(Count("pk"))
        active = OnceTask.objects.filter(executor__in=pks, status=OnceTask.Status.ACTIVE)
        tasks = active.order_by().values_list("executor").annotate(Count("pk"))
        counts = {"members": dict(members), "groups": dict(groups), "tasks": dict(tasks)}
        dispatches = Dispatch.objects.none()
        if request.user.has_perm("dispatch.view_dispatch"):
            dispatches = Dispatch.objects.visible_to(request.user).filter(open_for__in=pks)
        held = {each.open_for: each for each in dispatches.defer("params", "result")}
        for row in rows:
            row.member_count = counts["members"].get(row.pk, 0)
            row.group_count = counts["groups"].get(row.pk, 0)
            row.task_count = counts["tasks"].get(row.pk, 0)
            row.held = held.get(row.pk)

    def tab_counts(self, request: HttpRequest, others: Mapping[str, str]) -> Mapping[str, int]:
        """The count that the menu has, too."""
        if not others.keys() <= {self.list_place}:
            return {}
        bound = OperatorScope.names_of(request.user)
        return {"True": silent_people.read_silent_people(bound).silent.count}

    def get_list_display(self, request: HttpRequest) -> Any:
        shown = super().get_list_display(request)
        is_told = request.GET.get(self.list_place) in Executor.Kind.values
        return [each for each in shown if not is_told or each != "shown_kind"]

    @column(_("name"), ordering="name")
    def shown_name(self, executor: Any) -> SafeString:
        return who(executor.name, executor.title, is_group=executor.is_group)

    @column(_("members or groups"))
    def belongs(self, executor: Any) -> str:
        if executor.is_group:
            count: int = executor.member_count
            return ngettext("%d member", "%d members", count) % count
        count = executor.group_count
        return ngettext("in %d group", "in %d groups", count) % count if count else "–"

    @column(_("in hand"))
    def in_hand(self, executor: Any) -> SafeString | str:
        held = executor.held
        if held is None:
            return ""
        title = link(page_url(Dispatch, held.pk), shown_text(held.title, limit=80))
        return format_html('{} <span class="cell-note">{}</span>', title, time_left(held))

    @column(_("active tasks"))
    def open_tasks(self, executor: Any) -> SafeString | str:
        if not executor.task_count:
            return "–"
        url = list_url(OnceTask, executor=executor.name, status="active", from_day=FIRST_DAY)
        return link(url, executor.task_count)

    # --- the form ---------------------------------------------------------------------------------
    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fields: list[Any] = ["name", "title", "enabled"]
        if obj is not None:
            fields = [("name", "shown_kind"), ("title", "enabled")]
        fieldsets: list[Any] = [(None, {"fields": fields})]
        if obj is None or (obj.is_group and self.has_change_permission(request, obj)):
            fields = ["add_members", "makes_new"]
            fields += [] if obj is None else ["remove_members"]
            fieldsets.append((_("Members of the group"), {"fields": fields}))
        return fieldsets

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return () if obj is None else ("name", "shown_kind")

    def form_knows(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        return {"visible": Executor.objects.visible_to(request.user)}

    def create(self, request: HttpRequest, form: Any, *, actor: str) -> Executor:
        values = form.cleaned_data
        return executors.create_executor(
            name=values["name"],
            title=values["title"],
            enabled=values["enabled"],
            members=values["add_members"],
            actor=actor,
        )

    def update(
        self, request: HttpRequest, row: Executor, form: Any, *, version: int, actor: str
    ) -> Executor:
        return executors.update_executor(
            executor=row,
            changes=form.own_changes,
            add=form.cleaned_data.get("add_members", []),
            remove=form.cleaned_data.get("remove_members", []),
            version=version,
            actor=actor,
        )

    def blockers(self, row: Executor) -> Sequence[str]:
        return blocker_sentences(row)

    def remove(self, request: HttpRequest, row: Executor, *, actor: str) -> None:
        executors.remove_executor(executor=row, actor=actor)

    # --- the page ---------------------------------------------------------------------------------
    def prepare_row(self, request: HttpRequest, row: Any) -> None:
        row.page_title = row.shown

    def top_panels(self, request: HttpRequest, row: Executor) -> list[Panel]:
        return first_panels(request, row)

    def panels(self, request: HttpRequest, row: Executor) -> list[Panel]:
        may_rebuild = self.has_change_permission(request, row)
        history = super().panels(request, row)
        return executor_panels(request, row, history, may_rebuild=may_rebuild)

    # --- actions ----------------------------------------------------------------------------------
    @ReasonAction(
        description=_("Enable"),
        permission="change",
        question=_("They get tasks again."),
        icon="toggle_on",
        offered=lambda executor: not executor.enabled,
    )
    def enable(self, row: Executor, *, reason: str, actor: str) -> bool:
        return _set_enabled(row, True, reason=reason, actor=actor)

    @ReasonAction(
        description=_("Disable"),
        permission="change",
        question=_("They get no new tasks. Open dispatches continue."),
        icon="toggle_off",
        is_dangerous=True,
        offered=lambda executor: executor.enabled,
    )
    def disable(self, row: Executor, *, reason: str, actor: str) -> bool:
        return _set_enabled(row, False, reason=reason, actor=actor)


def _set_enabled(row: Executor, enabled: bool, *, reason: str, actor: str) -> bool:
    if row.enabled == enabled:
        return False
    executors.update_executor(
        executor=row, changes={"enabled": enabled}, actor=actor, reason=reason
    )
    return True


admin.site.register(Executor, ExecutorAdmin)
