"""The admin for people with limits, its accounts and its sign-ins; needs all apps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from axes.models import AccessAttempt, AccessLog
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from apps.common.admin.display import time_column
from apps.common.admin.machine_rows import MachineRowAdmin
from apps.dispatch.models import Executor, OperatorScope
from apps.flows.models import Flow, FlowRun
from apps.jobs.models import AnyJob, ArchivedJob, Bounds, Job, bounds_of
from apps.journal.admin import JournalEntryAdmin
from apps.journal.admin.words import CHANGED, Event, listed_each, register
from apps.journal.models import JournalEntry, Source
from apps.reports.admin.counted import CountedAs
from apps.reports.services.titles import titles
from apps.schedules.models import Schedule
from taskplatform import exports
from taskplatform.accounts import GroupAdmin, UserAdmin
from taskplatform.roles import title_of


class OperatorsJournalAdmin(JournalEntryAdmin):
    """The journal for operators with limits: entries about their executors, and of their jobs."""

    list_filter = (*JournalEntryAdmin.list_filter, CountedAs)

    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        super().prepare_page(request, rows)
        # A task may have been addressed to others since: its present title is not for all to see.
        may_see = request.user.has_perm("dispatch.view_oncetask")
        is_limited = OperatorScope.names_of(request.user) is not None
        known = titles([row.type_or_task for row in rows]) if may_see and not is_limited else {}
        files = exports.files_of(rows)
        for row in rows:
            row.task_title = known.get(row.type_or_task, "")
            if row.pk in files:
                row.reason = exports.words_of(files[row.pk])

    def named(self, entry: JournalEntry) -> tuple[str, str]:
        """People know a task by its title, not by `once:12`."""
        title = getattr(entry, "task_title", "")
        return (title, entry.type_or_task) if title else super().named(entry)

    def get_queryset(self, request: HttpRequest) -> QuerySet[JournalEntry]:
        entries: QuerySet[JournalEntry] = super().get_queryset(request)
        if not request.user.has_perm("auth.view_user"):
            entries = entries.exclude(source=Source.PEOPLE)
        bound, bounds = OperatorScope.names_of(request.user), bounds_of(request.user)
        if bound is None:
            return entries
        seen = Q(source=Source.JOB) & (
            Q(subject_id__in=_within(Job, bounds)) | Q(subject_id__in=_within(ArchivedJob, bounds))
        )
        visible = Schedule.objects.visible_to(request.user).values("pk")
        seen |= Q(source=Source.SCHEDULE, subject_id__in=visible)
        runs = FlowRun.objects.visible_to(request.user).values("pk")
        flows = Flow.objects.visible_to(request.user).values("pk")
        seen |= Q(source=Source.FLOW) & (Q(subject_id__in=runs) | Q(subject_id__in=flows))
        seen |= Q(executor__in=Executor.objects.within(bound).values("name"))
        if bounds.types is not None:
            seen |= Q(source=Source.PLAN, executor="", type_or_task__in=bounds.types)
        return entries.filter(seen)


def _within(model: type[AnyJob], bounds: Bounds) -> QuerySet[Any, Any]:
    return model._default_manager.filter(bounds.condition()).values("pk")


_PAGE_OF_ROLES = dict.fromkeys(("role_created", "role_changed", "role_deleted"), "auth_group")


class AccessAttemptAdmin(MachineRowAdmin):
    """Names and addresses with wrong passwords; deleting a row unlocks it."""

    when_empty = _("Nobody was refused.")
    list_display = ("shown_time", "username", "ip_address", "failures_since_start")
    list_mobile = (("username", "ip_address"), ("shown_time",))
    list_display_links = ("shown_time", "username")
    fields = ("shown_time", "username", "ip_address", "failures_since_start", "user_agent")
    shown_time = time_column("attempt_time", _("last try at"), ordering="attempt_time")
    exact_search = (("username", lambda term: term),)
    search_help_text = _("Name, in full")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)


for _model in (AccessAttempt, AccessLog):
    # Theirs are English sentences.
    _model.add_to_class("__str__", lambda row: row.username or "–")


class AccessLogAdmin(MachineRowAdmin):
    """The sign-ins: the person, the address, and the end of the session."""

    list_display = ("shown_time", "username", "ip_address", "shown_logout")
    list_mobile = (("username", "ip_address"), ("shown_time",))
    list_display_links = ("shown_time", "username")
    fields = ("shown_time", "shown_logout", "username", "ip_address", "user_agent")
    shown_time = time_column("attempt_time", _("signed in at"), ordering="attempt_time")
    shown_logout = time_column("logout_time", _("signed out at"), ordering="logout_time")
    exact_search = (("username", lambda term: term),)
    search_help_text = _("Name, in full")


register(
    User,
    events={
        "account_created": Event(
            _("Account created"), "person_add", "success", said=_("created {what}")
        ),
        "account_changed": Event(_("Account changed"), "edit", "info", said=CHANGED),
        "account_deleted": Event(
            _("Account deleted"), "person_remove", "danger", said=_("deleted {what}")
        ),
        "password_changed": Event(
            _("Password changed"), "password", "info", said=_("changed the password of {what}")
        ),
        "role_created": Event(_("Role created"), "add_circle", "success", said=_("created {what}")),
        "role_changed": Event(_("Role changed"), "edit", "info", said=CHANGED),
        "role_deleted": Event(_("Role deleted"), "delete", "danger", said=_("deleted {what}")),
        "roles_given": Event(
            _("Roles given"),
            "add_circle",
            "warning",
            said=ngettext_lazy("gave {what} the role {given}", "gave {what} the roles {given}"),
            counts="given",
        ),
        "roles_taken": Event(
            _("Roles taken"),
            "do_not_disturb_on",
            "warning",
            said=ngettext_lazy(
                "took the role {taken} from {what}", "took the roles {taken} from {what}"
            ),
            counts="taken",
        ),
        "permissions_given": Event(
            _("Permissions given"),
            "add_circle",
            "warning",
            said=ngettext_lazy(
                "gave {what} the permission {given}", "gave {what} the permissions {given}"
            ),
            counts="given",
        ),
        "permissions_taken": Event(
            _("Permissions taken"),
            "do_not_disturb_on",
            "warning",
            said=ngettext_lazy(
                "took the permission {taken} from {what}",
                "took the permissions {taken} from {what}",
            ),
            counts="taken",
        ),
        "limit_set": Event(
            _("Limit set"), "visibility", "warning", said=_("limited what {what} may see")
        ),
        "limit_changed": Event(
            _("Limit changed"), "visibility", "warning", said=_("changed the limit of {what}")
        ),
        "limit_removed": Event(
            _("Limit removed"), "visibility", "warning", said=_("removed a limit of {what}")
        ),
        "view_shared": Event(_("View shared"), "share", "info", said=_("shared the view {title}")),
        "view_changed": Event(
            _("Shared view changed"), "edit", "info", said=_("changed the shared view {title}")
        ),
        "view_unshared": Event(
            _("View shared no more"), "visibility_off", said=_("stopped sharing the view {title}")
        ),
        "signed_in": Event(_("Signed in"), "login", "success", said=_("signed in")),
        "signed_out": Event(_("Signed out"), "logout", said=_("signed out")),
        "sign_in_failed": Event(_("Sign-in failed"), "error", "warning"),
        "sign_in_locked": Event(_("Sign-in locked"), "lock", "danger"),
        "exported": Event(_("Exported"), "download", "info", said=_("exported {file}")),
    },
    names={
        "given": _("given"),
        "taken": _("taken"),
        "address": _("address"),
        "list": _("list"),
        "filters": _("filters"),
        "file": _("file"),
        "url": _("address"),
    },
    formatters={
        "given": listed_each(title_of),
        "taken": listed_each(title_of),
        "file": exports.words_of,
    },
    pages={
        Source.PEOPLE: lambda entry: (
            "" if not entry.subject_id else _PAGE_OF_ROLES.get(entry.event, "auth_user")
        )
    },
)

admin.site.unregister(JournalEntry)
admin.site.register(JournalEntry, OperatorsJournalAdmin)
admin.site.unregister(User)
admin.site.unregister(Group)
admin.site.register(User, UserAdmin)
admin.site.register(Group, GroupAdmin)
admin.site.register(AccessAttempt, AccessAttemptAdmin)
admin.site.register(AccessLog, AccessLogAdmin)
