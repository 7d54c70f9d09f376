"""Pages whose forms act: each is carried out once, however often it is sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib import messages
from django.http import HttpRequest
from django.utils.translation import gettext

from apps.common import sent_forms

# The fields with the number of a form that acts, and with the token of its session.
SENT, TOKEN = "sent", "csrfmiddlewaretoken"


@contextmanager
def acting_once(request: HttpRequest) -> Iterator[sent_forms.Act]:
    """`sent_forms.acting_once` for the form that the request has sent; a page says so if it was
    sent before, with the same in it: who goes back to a list may act on other rows."""
    said = sorted((name, each) for name, each in request.POST.lists() if name != TOKEN)
    number = sent_forms.number_of(request.POST.get(SENT, ""), said=repr((request.path, said)))
    with sent_forms.acting_once(number) as act:
        if act.was_sent:
            text = gettext("This was sent twice, and is done once. Send it anew to do it again.")
            messages.info(request, text)
        yield act
