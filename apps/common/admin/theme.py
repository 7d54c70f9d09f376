"""The admin theme: named here, and nowhere else.

Every admin class of the platform derives from the bases of this package, and every widget that is
chosen by hand comes from here, so that another theme costs this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget as CheckboxesWidget,
)
from unfold.widgets import (
    UnfoldAdminDecimalFieldWidget as NumberWidget,
)
from unfold.widgets import (
    UnfoldAdminFileFieldWidget as FileWidget,
)
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget as IntegerWidget,
)
from unfold.widgets import (
    UnfoldAdminPasswordWidget as PasswordWidget,
)
from unfold.widgets import (
    UnfoldAdminSelectMultipleWidget as SelectMultipleWidget,
)
from unfold.widgets import (
    UnfoldAdminSelectWidget as SelectWidget,
)
from unfold.widgets import (
    UnfoldAdminSingleDateWidget as DateWidget,
)
from unfold.widgets import (
    UnfoldAdminSplitDateTimeWidget as DateTimeWidget,
)
from unfold.widgets import (
    UnfoldAdminTextareaWidget as TextareaWidget,
)
from unfold.widgets import (
    UnfoldAdminTextInputWidget as TextWidget,
)
from unfold.widgets import (
    UnfoldBooleanSwitchWidget as SwitchWidget,
)

from apps.common.admin.display import label

if TYPE_CHECKING:
    # The theme carries no types; its classes are Django's with more templates.
    from django.contrib import admin
    from django.contrib.admin import AdminSite
    from django.contrib.admin.views.main import ChangeList

    ModelAdmin = admin.ModelAdmin[Any]
    StackedInline = admin.StackedInline[Any, Any]
    TabularInline = admin.TabularInline[Any, Any]
else:
    from unfold.admin import ModelAdmin, StackedInline, TabularInline
    from unfold.sites import UnfoldAdminSite as AdminSite
    from unfold.views import ChangeList

__all__ = [
    "AdminPasswordChangeForm",
    "AdminSite",
    "ChangeList",
    "CheckboxesWidget",
    "DateTimeWidget",
    "DateWidget",
    "FileWidget",
    "IntegerWidget",
    "ModelAdmin",
    "NumberWidget",
    "PasswordWidget",
    "SelectMultipleWidget",
    "SelectWidget",
    "StackedInline",
    "SwitchWidget",
    "TabularInline",
    "TextWidget",
    "TextareaWidget",
    "UserChangeForm",
    "UserCreationForm",
    "label",
]
