"""The pages of accounts and roles, and the limits of people on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.apps import apps
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.forms import ModelMultipleChoiceField
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.forms import AdminPasswordChangeForm, UserChangeForm

from apps.access.models import Limited
from apps.alerts.models import ReportPlan
from apps.common.admin.conflict import ConflictPage, SeenForm
from apps.common.admin.display import shown_text, time_column, translate
from apps.common.admin.pages import Panel
from apps.common.messages import Message
from apps.dispatch.models import OperatorScope
from apps.jobs.models import JobScope
from taskplatform.abilities import abilities, role_rows
from taskplatform.capabilities import ROLES
from taskplatform.new_account import NewAccountForm, NewMemberForm
from taskplatform.roles import title_of

if TYPE_CHECKING:
    # unfold has no types; its classes are Django's with more templates.
    TabularInline = admin.TabularInline[Any, Any]
else:
    from unfold.admin import TabularInline


class OperatorScopeInline(TabularInline):
    """The executors that this person is limited to."""

    model: Any = OperatorScope
    extra = 0
    # Rows say themselves what they limit to; the names of scopes are English. Which name the theme
    # has for it depends on its release.
    if hasattr(TabularInline, "show_title"):
        show_title = False
    else:
        hide_title = True
    autocomplete_fields: ClassVar[Any] = ("executor",)
    verbose_name = _("person or group in view")
    verbose_name_plural = _("Sees these people and groups only")


class JobScopeInline(OperatorScopeInline):
    """The job types that this person is limited to."""

    model: Any = JobScope
    autocomplete_fields: ClassVar[Any] = ()
    verbose_name = _("job type in view")
    verbose_name_plural = _("Sees jobs of these types only")

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if field is not None:
            # A table shows no label beside the box.
            field.widget.attrs["aria-label"] = capfirst(db_field.verbose_name)
        return field


class LimitedInline(OperatorScopeInline):
    """The sides on which this person is limited; the limit stays when its last row is removed."""

    model: Any = Limited
    autocomplete_fields: ClassVar[Any] = ()
    verbose_name = _("limit")
    verbose_name_plural = _("Limited to what is listed below (none = sees all)")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("dispatch.view_operatorscope"))

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("dispatch.add_operatorscope"))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("dispatch.delete_operatorscope"))


# Django's four permissions of a model begin with these words; Django names them in English.
_VERBS = {
    "add": _("Can add it"),
    "change": _("Can change it"),
    "delete": _("Can delete it"),
    "view": _("Can view it"),
}


class PermissionsField(ModelMultipleChoiceField):  # type: ignore[type-arg]
    """Permissions by application, model and allowed act, in the language of the page."""

    def label_from_instance(self, permission: Permission) -> str:
        verb, _underscore, model = permission.codename.partition("_")
        of_model = model == permission.content_type.model
        is_usual = of_model and verb in _VERBS
        action = _VERBS[verb] if is_usual else translate(Message(permission.name))
        return f"{permission.content_type} | {action}"


# On these pages groups are those of people, and users whom tasks are for.
_OF_ROLES: tuple[Any, Any] = (Group._meta, User._meta.get_field("groups"))
_OF_ROLES[0].verbose_name, _OF_ROLES[0].verbose_name_plural = _("role"), _("roles")
_OF_ROLES[1].verbose_name = _("roles")
User._meta.verbose_name, User._meta.verbose_name_plural = _("account"), _("accounts")
Group.add_to_class("__str__", lambda role: title_of(role.name))


class _PeopleAdmin(ConflictPage):
    """The base of accounts and roles. The page before a deletion does not list rows of many-to-many
    tables: they have no names."""

    def formfield_for_manytomany(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        if db_field.related_model is Permission:
            kwargs["form_class"] = PermissionsField
        if db_field.related_model is Group:
            kwargs["help_text"] = _("What the account may do; several roles add up.")
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        found, counts, lacking, protected = super().get_deleted_objects(objs, request)
        ties = [m._meta for m in apps.get_models(include_auto_created=True) if m._meta.auto_created]
        heads = tuple(f"{capfirst(tie.verbose_name)}: " for tie in ties)
        plurals = {str(tie.verbose_name_plural) for tie in ties}
        counted = {name: count for name, count in counts.items() if str(name) not in plurals}
        return _without(found, heads), counted, lacking, protected


def _without(rows: list[Any], heads: tuple[str, ...]) -> list[Any]:
    """The nested list without the lines that begin with the text."""
    kept = [_without(row, heads) if isinstance(row, list) else row for row in rows]
    return [row for row in kept if row and not str(row).startswith(heads)]


# Times with the zone of the page, as on all pages.
_TIMES = ("shown_last_login", "shown_date_joined")


class AccountForm(SeenForm, UserChangeForm):  # type: ignore[misc]
    """It takes back nothing that somebody has changed meanwhile, such as closed the account."""


class UserAdmin(DjangoUserAdmin, _PeopleAdmin):  # type: ignore[type-arg]
    """Accounts; only a superuser hands out permissions. A new one gets role and limits at once."""

    form = AccountForm
    add_form = NewAccountForm
    add_form_template = "admin/new_account.html"
    change_password_form = AdminPasswordChangeForm
    inlines = (LimitedInline, OperatorScopeInline, JobScopeInline)
    search_help_text = _("Part of a name or mail address")
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        (_("Personal info"), {"fields": ("first_name", "last_name", "email")}),
        (_("Sign-in and roles"), {"fields": ("is_active", "is_staff", "is_superuser", "groups")}),
        (_("Single permissions"), {"fields": ("user_permissions",), "classes": ("collapse",)}),
        (_("Important dates"), {"fields": _TIMES}),
    )
    add_fieldsets = (
        (
            None,
            {
                "fields": (
                    *("username", "email", "usable_password", "password1", "password2"),
                    "time_zone",
                )
            },
        ),
        (
            _("Roles and limits"),
            {"fields": ("is_staff", "groups", "executors", "job_types")},
        ),
    )
    list_display = (
        *("username", "first_name", "last_name", "is_active", "is_staff"),
        "shown_last_login",
    )
    list_mobile = (("username", "is_active"), ("first_name", "last_name", "shown_last_login"))
    shown_last_login = time_column(
        "last_login", User._meta.get_field("last_login").verbose_name, ordering="last_login"
    )
    shown_date_joined = time_column("date_joined", User._meta.get_field("date_joined").verbose_name)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _may_touch(request, obj) and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _may_touch(request, obj) and super().has_delete_permission(request, obj)

    def get_form(self, request: Any, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        if obj is None and request.user.is_superuser:
            kwargs.setdefault("form", NewMemberForm)
        return super().get_form(request, obj, change=change, **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)
        hands_out_roles = obj is not None or request.user.is_superuser
        return fieldsets if hands_out_roles else fieldsets[:-1]

    def get_inlines(self, request: HttpRequest, obj: Any) -> Any:
        # The form of a new account has the limits as fields.
        return () if obj is None else self.inlines

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fields = (*super().get_readonly_fields(request, obj), *_TIMES)
        if request.user.is_superuser:
            return fields
        return (*fields, "is_staff", "is_superuser", "groups", "user_permissions")

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        found, *rest = super().get_deleted_objects(objs, request)
        plans = ReportPlan.objects.filter(owner__in=objs).not_deleted().order_by("pk")
        stays = gettext("The report “%(plan)s” stays, but is not sent until somebody else saves it")
        lines = [shown_text(stays % {"plan": plan.title}) for plan in plans]
        return ([*found, lines] if lines else found, *rest)

    # --- a new account --------------------------------------------------------------------------
    def save_model(self, request: Any, obj: User, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if not change:
            form.finish(obj)
            request.new_password = form.new_password

    def response_add(
        self, request: Any, obj: User, post_url_continue: str | None = None
    ) -> HttpResponse:
        """The page with a generated password; a redirect would have to store it in the session."""
        if not request.new_password:
            return super().response_add(request, obj, post_url_continue)
        goes_on = "_addanother" in request.POST
        return self.page(
            request,
            "admin/new_password.html",
            title=gettext("Password of %(name)s") % {"name": obj},
            account=obj,
            password=request.new_password,
            url=self.url("add") if goes_on else self.change_url(obj.pk),
        )

    # --- what it can do -------------------------------------------------------------------------
    def page_context(self, request: HttpRequest, row: Any, form: Any) -> dict[str, Any]:
        if row is not None or not request.user.is_superuser:
            return {}
        return {"roles": [*map(title_of, ROLES)], "role_rows": role_rows()}

    def top_panels(self, request: HttpRequest, row: User) -> list[Panel]:
        body = render_to_string("admin/includes/abilities.html", abilities(row))
        return [Panel(_("What it can do"), body), *super().top_panels(request, row)]


def _may_touch(request: HttpRequest, account: Any) -> bool:
    """Only a superuser changes a superuser: setting the password is as good as being one."""
    return account is None or not account.is_superuser or bool(request.user.is_superuser)


class GroupAdmin(DjangoGroupAdmin, _PeopleAdmin):
    """Roles: viewer, operator and configurer are remade by every migrate; only a superuser hands
    out permissions."""

    form = SeenForm
    fields = ("name", "permissions")
    list_display = ("__str__",)
    list_mobile = (("__str__",), ())
    search_help_text = _("Part of a name")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fields = super().get_readonly_fields(request, obj)
        return fields if request.user.is_superuser else (*fields, "permissions")
