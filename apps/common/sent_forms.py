"""Forms that make rows or act on some, each at most once, however often they are sent.

A page that adds something is drawn with a number of its own. What the form makes and its number are
stored together, so a double click or a second try finds what the first one made. An act has many
transactions: its number is stored before, and forgotten if nothing was done.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from django.core.signing import BadSignature, Signer
from django.db import IntegrityError, models, transaction

from apps.common import clock, ids
from apps.common.db import transactional
from apps.common.errors import Conflict
from apps.common.messages import Message as _
from apps.common.models import SentForm
from apps.common.tidy import remove_oldest

# Nobody sends a form again later.
KEPT = timedelta(days=2)
RowT = TypeVar("RowT", bound=models.Model | None)
_SALT = "sent form"


class SentBefore(Conflict):
    """The form was sent before; `row` is the key of what it made, if that was one row."""

    def __init__(self, row: int | None) -> None:
        super().__init__(_("This form was sent before, and what it makes is there already."))
        self.row = row


def new_number() -> str:
    """The number for a form that is drawn now, signed so that nobody makes up another one."""
    return Signer(salt=_SALT).sign(str(ids.next_id()))


def number_of(signed: str, *, said: str = "") -> int | None:
    """The number that a form has sent; None for none of ours. With what it `said`, the form has a
    number for each content."""
    try:
        number = int(Signer(salt=_SALT).unsign(signed))
    except BadSignature:
        return None
    if not said:
        return number
    drawn = hashlib.blake2b(f"{number} {said}".encode(errors="replace"), digest_size=8)
    return int.from_bytes(drawn.digest(), "big") >> 1


@transactional
def make_once(number: int, make: Callable[[], RowT]) -> RowT:
    """Make the row by `make`, and note that the form of that number has; SentBefore when it had."""
    take(number)
    row = make()
    if row is not None:
        SentForm.objects.filter(pk=number).update(row=row.pk)
    return row


@contextmanager
def acting_once(number: int | None) -> Iterator[Act]:
    """The act of the form of that number, None for a form without one: carry it out unless it
    `was_sent`, and say whether it `is_done`."""
    act = Act(was_sent=number is not None and not _is_first(number))
    try:
        yield act
    finally:
        if number is not None and not (act.was_sent or act.is_done):
            SentForm.objects.filter(pk=number).delete()


@dataclass(kw_only=True)
class Act:
    """The act of a form: whether the form was sent before, and whether something is done now."""

    was_sent: bool
    is_done: bool = False


@transactional
def _is_first(number: int) -> bool:
    try:
        take(number)
    except SentBefore:
        return False
    return True


def take(number: int) -> None:
    """Note within the caller's transaction that the form is used; SentBefore when it was."""
    try:
        with transaction.atomic():
            SentForm.objects.create(number=number, sent_at=clock.now())
    except IntegrityError as error:
        # Also what was committed after this transaction began.
        rows = SentForm.objects.select_for_update().filter(pk=number)
        raise SentBefore(rows.values_list("row", flat=True).first()) from error


def forget(now: datetime) -> int:
    """Remove numbers of forms that nobody sends any more."""
    return remove_oldest(SentForm.objects.all(), "sent_at", now - KEPT)
