"""The filter of lists by values in JSON columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib.admin.views.main import SEARCH_VAR
from django.db.models import QuerySet
from django.http import HttpRequest, QueryDict
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextInputWidget

from apps.common.admin.filters import FormFilter
from apps.common.json import path as json_path

# Its parameter: a list that has it set compares row by row, whatever else an index finds.
PAYLOAD = "where"


def from_search_box(query: QueryDict, filters: Sequence[Any]) -> str | None:
    """The query string with the conditions that were typed into the search box of a list moved to
    its filter by payload; None where there are none, or no such filter."""
    typed = query.get(SEARCH_VAR, "")
    for each in filters:
        if not (isinstance(each, type) and issubclass(each, PayloadFilter)):
            continue
        if json_path.is_condition(typed, each.columns()):
            better = query.copy()
            del better[SEARCH_VAR]
            better[PAYLOAD] = f"{query.get(PAYLOAD, '')} {typed}".strip()
            return better.urlencode(safe=",")
    return None


class PayloadFilter(FormFilter):
    """The filter by values at paths of JSON columns, for people who may see them."""

    hint = _("A path, a colon and the whole value. Up to three, with blanks between.")

    def __init__(
        self, request: HttpRequest, params: dict[str, list[str]], model: Any, model_admin: Any
    ) -> None:
        super().__init__(request, params, model, model_admin)
        self._may_see: bool = model_admin.has_payload_permission(request)

    @classmethod
    def columns(cls) -> Sequence[str]:
        """The JSON columns that are searched."""
        return cls.filters.listed()[PAYLOAD].columns  # type: ignore[no-any-return]

    def has_output(self) -> bool:
        # A parameter without effect would show rows that it does not mean.
        return self._may_see or bool(self.used_parameters.get(PAYLOAD))

    def widget(self, each: Any) -> forms.Widget:
        attrs = {"placeholder": f"{each.columns[0]}.order.city:北京", "spellcheck": "false"}
        return UnfoldAdminTextInputWidget(attrs=attrs)  # type: ignore[no-any-return]

    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        if not self._may_see:
            raise ValueError(gettext("You may not see payloads, so you cannot search in them."))
        return super().narrowed(rows, given)
