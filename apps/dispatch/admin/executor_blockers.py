"""The rows that keep an executor from being deleted, with links to them."""

from __future__ import annotations

from django.contrib import admin
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from apps.common import uses
from apps.common.admin.display import translate
from apps.common.admin.html import link, list_url
from apps.dispatch.models import Executor, OnceTask
from apps.dispatch.services.blockers import INSTEAD, Kind, blockers

# The list of once tasks starts a week ago by default.
FIRST_DAY = "1970-01-01"


def blocker_sentences(executor: Executor) -> list[SafeString]:
    """A sentence for each kind of blocker, with a link to its rows; empty when there are none."""
    sentences = [
        _linked(executor, kind, translate(sentence)) for kind, sentence in blockers(executor)
    ]
    used = uses.of(uses.EXECUTOR, executor.name)
    sentences += [format_html("{}", translate(sentence)) for sentence in used]
    if sentences:
        sentences.append(format_html("{}", translate(INSTEAD)))
    return sentences


def _linked(executor: Executor, kind: Kind, sentence: str) -> SafeString:
    model = kind.listed or kind.model
    if not admin.site.is_registered(model):
        return format_html("{}", sentence)
    filters = {kind.column: executor.name, **kind.filters}
    if model is OnceTask:
        filters["from_day"] = FIRST_DAY
    those = link(list_url(model, **filters), gettext("Show them"))
    return format_html("{} {}", sentence, those)
