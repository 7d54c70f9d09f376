"""Accounts, roles, limits, sign-ins and exports in the journal.

Entries name the account in `type_or_task`, so they say whose they are also when it is deleted.
Changes are noted wherever they are made, on a page or by a command; what a migration makes of the
roles is part of the release and is not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from axes.helpers import get_client_ip_address
from axes.signals import user_locked_out
from django.conf import settings
from django.contrib.auth.models import Group, Permission, User
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db import transaction
from django.db.models import Model
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_save
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.access.models import Limited
from apps.common import clock
from apps.common.acting import acting, actor
from apps.common.addresses import pages_only
from apps.common.models import Preference, SavedView
from apps.dispatch.models import OperatorScope
from apps.jobs.models import JobScope
from apps.journal import services as journal
from apps.journal.models import Source

logger = logging.getLogger(__name__)

MAX_NAME = 128
# An account's settings; a password is noted as changed, without its hash.
SETTINGS = ("username", "first_name", "last_name", "email", "is_active", "is_staff", "is_superuser")


@pages_only
class PeopleMiddleware:
    """Notes what a signed-in person changes of people, and which files they take along."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith("/admin/") or not request.user.is_authenticated:
            return self.get_response(request)
        user = request.user
        with acting(f"admin:{user.get_username()}"):
            response = self.get_response(request)
            if response.headers.get("Content-Disposition", "").startswith("attachment"):
                data = {"file": getattr(response, "file", None), "url": request.get_full_path()}
                _note("exported", user, data={name: data[name] for name in data if data[name]})
        return response


def connect() -> None:
    """Listen to the changes of every table about people, and to sign-ins after axes."""
    pre_save.connect(_remember, User, dispatch_uid="people.remember_user")
    pre_save.connect(_remember, Group, dispatch_uid="people.remember_group")
    pre_save.connect(_remember, Preference, dispatch_uid="people.remember_zone")
    post_save.connect(_account_saved, User, dispatch_uid="people.user")
    post_save.connect(_zone_saved, Preference, dispatch_uid="people.zone")
    post_save.connect(_role_saved, Group, dispatch_uid="people.group")
    post_delete.connect(_account_deleted, User, dispatch_uid="people.no_user")
    post_delete.connect(_role_deleted, Group, dispatch_uid="people.no_group")
    for through in (User.groups.through, User.user_permissions.through, Group.permissions.through):
        uid = f"people.{through._meta.db_table}"
        m2m_changed.connect(_grants_changed, through, dispatch_uid=uid)
    for limit in (OperatorScope, JobScope, Limited):
        uid = f"people.{limit._meta.model_name}"
        post_save.connect(_limit_saved, limit, dispatch_uid=uid)
        post_delete.connect(_limit_deleted, limit, dispatch_uid=uid)
    pre_save.connect(_remember, SavedView, dispatch_uid="people.remember_view")
    post_save.connect(_view_saved, SavedView, dispatch_uid="people.view")
    post_delete.connect(_view_deleted, SavedView, dispatch_uid="people.no_view")
    user_logged_in.connect(_signed_in, dispatch_uid="people.in")
    user_logged_out.connect(_signed_out, dispatch_uid="people.out")
    user_login_failed.connect(_sign_in_failed, dispatch_uid="people.failed")
    user_locked_out.connect(_locked_out, dispatch_uid="people.locked")


# --- accounts and roles ---------------------------------------------------------------------------
def _remember(sender: type[Model], instance: Any, **_signal: Any) -> None:
    """Keep what the row was, for the comparison after it is saved."""
    stored = actor() and instance.pk and sender._base_manager.filter(pk=instance.pk).first()
    instance.noted_before = stored or None


def _account_saved(instance: Any, created: bool, **_signal: Any) -> None:
    before = instance.noted_before
    if created or before is None:
        if created:
            _note("account_created", instance, data={"after": _settings_of(instance)})
        return
    old, new = _settings_of(before), _settings_of(instance)
    changed = {name for name in SETTINGS if old[name] != new[name]}
    if changed:
        data = {"before": _only(old, changed), "after": _only(new, changed)}
        _note("account_changed", instance, data=data)
    if before.password != instance.password:
        _note("password_changed", instance)


def _zone_saved(instance: Any, **_signal: Any) -> None:
    before = instance.noted_before
    old, new = before.time_zone if before else "", instance.time_zone
    if old != new:
        data = {"before": {"time_zone": old}, "after": {"time_zone": new}}
        _note("account_changed", instance.user, data=data)


def _account_deleted(instance: Any, **_signal: Any) -> None:
    _note("account_deleted", instance, data={"before": _settings_of(instance)})


def _role_saved(instance: Any, created: bool, **_signal: Any) -> None:
    if created:
        _note("role_created", instance)
    elif instance.noted_before is not None and instance.noted_before.name != instance.name:
        data = {"before": {"name": instance.noted_before.name}, "after": {"name": instance.name}}
        _note("role_changed", instance, data=data)


def _role_deleted(instance: Any, **_signal: Any) -> None:
    _note("role_deleted", instance)


def _grants_changed(
    sender: Any, instance: Any, action: str, reverse: bool, pk_set: Any, **_signal: Any
) -> None:
    """Roles or permissions were given or taken; from either side of the tie."""
    if action == "pre_clear":
        # Afterwards nobody knows what was there.
        pk_set = set(_ties(sender, instance).values_list("pk", flat=True))
    elif action not in ("post_add", "post_remove"):
        return
    if not pk_set or not actor():
        return
    verb = "given" if action == "post_add" else "taken"
    is_role = sender is User.groups.through
    holders, names = [instance], None
    if reverse:
        holder_model: Any = Group if sender is Group.permissions.through else User
        holders, names = list(holder_model.objects.filter(pk__in=pk_set)), [_name_of(instance)]
    granted: Any = Group if is_role else Permission
    for holder in holders:
        given = names or [_name_of(each) for each in granted.objects.filter(pk__in=pk_set)]
        event = f"{'roles' if is_role else 'permissions'}_{verb}"
        _note(event, holder, data={verb: ", ".join(sorted(given))})


def _ties(through: Any, instance: Any) -> Any:
    if through is User.groups.through:
        return instance.groups if isinstance(instance, User) else instance.user_set
    if through is User.user_permissions.through:
        return instance.user_permissions if isinstance(instance, User) else instance.user_set
    return instance.permissions if isinstance(instance, Group) else instance.group_set


# --- limits ---------------------------------------------------------------------------------------
def _limit_saved(instance: Any, created: bool, **_signal: Any) -> None:
    event = "limit_set" if created else "limit_changed"
    _note(event, _limited(instance), data=_limit(instance))


def _limit_deleted(instance: Any, **_signal: Any) -> None:
    _note("limit_removed", _limited(instance), data=_limit(instance))


def _limited(limit: Any) -> Any:
    return limit.person if isinstance(limit, Limited) else limit.operator


def _limit(limit: Any) -> dict[str, Any]:
    if isinstance(limit, Limited):
        return {"side": limit.side}
    if isinstance(limit, JobScope):
        return {"type": limit.type}
    return {"executor": limit.executor.name}


# --- views of lists -------------------------------------------------------------------------------
def _view_saved(instance: Any, **_signal: Any) -> None:
    """Note a change of a view that others see, too."""
    before = instance.noted_before
    was_shared = before is not None and before.shared
    if not instance.shared:
        if was_shared:
            _note("view_unshared", instance.owner, data={"before": _view(before)})
    elif not was_shared:
        _note("view_shared", instance.owner, data={"after": _view(instance)})
    elif _view(before) != _view(instance):
        data = {"before": _view(before), "after": _view(instance)}
        _note("view_changed", instance.owner, data=data)


def _view_deleted(instance: Any, **_signal: Any) -> None:
    if instance.shared:
        _note("view_unshared", instance.owner, data={"before": _view(instance)})


def _view(view: Any) -> dict[str, Any]:
    return {"list": view.list, "title": view.title, "filters": view.query}


# --- sign-ins -------------------------------------------------------------------------------------
def _signed_in(request: HttpRequest, user: Any, **_signal: Any) -> None:
    _note_sign_in("signed_in", request, user.get_username(), user.pk)


def _signed_out(request: HttpRequest, user: Any, **_signal: Any) -> None:
    if user is not None:
        _note_sign_in("signed_out", request, user.get_username(), user.pk)


def _sign_in_failed(
    credentials: Mapping[str, Any], request: HttpRequest | None = None, **_signal: Any
) -> None:
    if request is None:
        return
    name = str(credentials.get("username", ""))
    logger.warning("sign-in as %r from %s failed", name[:MAX_NAME], _address_of(request))
    if _failures(request) <= settings.AXES_FAILURE_LIMIT:
        _note_sign_in("sign_in_failed", request, name)


def _locked_out(request: HttpRequest, username: str, **_signal: Any) -> None:
    # Further failures while the name is locked are not noted.
    if _failures(request) == settings.AXES_FAILURE_LIMIT:
        _note_sign_in("sign_in_locked", request, str(username or ""))


def _failures(request: HttpRequest) -> int:
    """The number of failures in a row, this one included; axes has counted it before."""
    return getattr(request, "axes_failures_since_start", None) or 0


def _note_sign_in(event: str, request: HttpRequest, name: str, pk: int = 0) -> None:
    if not request.path_info:
        # A session that a program made for itself, without a page.
        return
    _write(
        event,
        name,
        pk,
        actor=f"admin:{name}" if pk else "",
        data={"address": _address_of(request)},
    )


def _address_of(request: HttpRequest) -> str:
    return str(get_client_ip_address(request))


# --- writing --------------------------------------------------------------------------------------
def _note(event: str, holder: Any, *, data: Mapping[str, Any] | None = None) -> None:
    if who := actor():
        _write(event, _name_of(holder), holder.pk or 0, actor=who, data=data)


@transaction.atomic
def _write(event: str, name: str, pk: int, **facts: Any) -> None:
    entry = journal.Entry(
        at=clock.now(),
        source=Source.PEOPLE,
        subject_id=pk,
        event=event,
        type_or_task=name[:MAX_NAME],
        **facts,
    )
    journal.write([entry])


def _settings_of(account: Any) -> dict[str, Any]:
    return {name: getattr(account, name) for name in SETTINGS}


def _only(values: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: values[name] for name in sorted(names)}


def _name_of(row: Any) -> str:
    if isinstance(row, Permission):
        return f"{row.content_type.app_label}.{row.codename}"
    return str(row.get_username() if isinstance(row, User) else row.name)
