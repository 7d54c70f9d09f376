"""The terms of a key: its scopes, its bindings, its rate and its expiry."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import StrEnum

from apps.common.durations import SECONDS
from apps.common.errors import FieldError, Invalid
from apps.common.messages import Message as _
from apps.common.messages import joined
from apps.common.readers import is_key

MAX_NAME_CHARACTERS = 100
MAX_NAMES = 1000
_RATE = re.compile(r"([1-9][0-9]{0,8})/([smhd])")
_EXECUTOR = re.compile(r"[ug]id_[A-Za-z0-9_.@-]{1,124}")


class Scope(StrEnum):
    PULL = "pull"  # take a dispatch, call back, extend, release
    SUBMIT = "submit"  # bring jobs in
    HOLD = "hold"  # work on jobs
    READ = "read"  # every GET of the API
    OPERATE = "operate"  # plan, and change what is under way
    METRICS = "metrics"  # /metrics
    PAYLOAD = "payload"  # answers show the secrets that pages mask


class Binding(StrEnum):
    """A kind of names to which a key may be bound."""

    EXECUTORS = "executors"
    JOB_TYPES = "job_types"


@dataclass(frozen=True)
class Rate:
    """At most `limit` requests in each window of `seconds`."""

    limit: int
    seconds: int

    @classmethod
    def parse(cls, text: str) -> Rate:
        """Read `10/s`, `600/m`, `5000/h` or `100000/d`; ValueError otherwise."""
        match = _RATE.fullmatch(text)
        if not match:
            raise ValueError(
                _(
                    "{text!r} is not a rate; write requests per second, minute, hour or day, "
                    "for example 10/s, 600/m, 5000/h or 100000/d.",
                    text=text,
                )
            )
        return cls(int(match[1]), SECONDS[match[2]])


@dataclass(frozen=True, kw_only=True)
class Client:
    """The caller behind a valid key, as `request.auth` (and `request.user`) of a request.

    `executors` holds `uid_…` and `gid_…` names; empty means all, and so do empty `job_types`. A
    `gid_…` stands for its members; dispatch, which has the memberships, resolves it.
    """

    client_id: str
    name: str
    scopes: frozenset[str]
    executors: frozenset[str] = frozenset()
    job_types: frozenset[str] = frozenset()
    rate: Rate | None = None

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def actor(self) -> str:
        """The name of this caller in the journal."""
        return f"key:{self.client_id}"

    @property
    def bindings(self) -> frozenset[Binding]:
        """The kinds of names to which the key is bound."""
        bound = {Binding.EXECUTORS: self.executors, Binding.JOB_TYPES: self.job_types}
        return frozenset(binding for binding, names in bound.items() if names)


@dataclass(frozen=True, kw_only=True)
class ClientTerms:
    """The terms that an operator sets for a key: `rate` "" = no limit, `expires_at` None =
    never."""

    name: str
    scopes: Sequence[str]
    executors: Sequence[str] = ()
    job_types: Sequence[str] = ()
    expires_at: datetime | None = None
    rate: str = ""


TERMS = tuple(field.name for field in fields(ClientTerms))


def validated(
    terms: ClientTerms, *, now: datetime, agreed: ClientTerms | None = None
) -> ClientTerms:
    """The terms as they are stored: trimmed, each name once, in sorted lists.

    Invalid names every wrong field. An unchanged expiry may be past.
    """
    terms = replace(
        terms,
        name=terms.name.strip(),
        scopes=[
            *(scope for scope in Scope if scope in terms.scopes),
            *sorted(set(terms.scopes) - set(Scope)),
        ],
        executors=sorted(set(terms.executors)),
        job_types=sorted(set(terms.job_types)),
        rate=terms.rate.strip(),
    )
    errors = list(_errors(terms, now, agreed))
    if errors:
        raise Invalid(joined(error.message for error in errors), errors=errors)
    return terms


def _errors(terms: ClientTerms, now: datetime, agreed: ClientTerms | None) -> Iterator[FieldError]:
    if not 1 <= len(terms.name) <= MAX_NAME_CHARACTERS or not terms.name.isprintable():
        yield _error(
            "name",
            _(
                "The name {name!r} is not usable; write 1 to {limit} printable characters.",
                name=terms.name[:40],
                limit=MAX_NAME_CHARACTERS,
            ),
        )
    if not terms.scopes:
        yield _error(
            "scopes", _("A key needs at least one scope of {scopes}.", scopes=_list(Scope))
        )
    yield from _wrong_names(
        "scopes",
        terms.scopes,
        lambda text: text in set(Scope),
        _("a scope is one of {scopes}", scopes=_list(Scope)),
    )
    yield from _wrong_names(
        "executors",
        terms.executors,
        lambda text: _EXECUTOR.fullmatch(text) is not None,
        _(
            "a person is written uid_…, a group gid_…, with letters, digits "
            "and _ . @ -, at most 128 characters"
        ),
    )
    yield from _wrong_names(
        "job_types",
        terms.job_types,
        lambda text: is_key(text, 128),
        _("a job type has 1 to 128 letters, digits and _ . : @ / + -, without blanks"),
    )
    if terms.rate:
        try:
            Rate.parse(terms.rate)
        except ValueError as error:
            # The argument is a Message; str(error) would be plain text.
            yield _error("rate", error.args[0])
    if terms.expires_at is not None and (agreed is None or agreed.expires_at != terms.expires_at):
        yield from _wrong_expiry(terms.expires_at, now)


def _wrong_names(
    field: str, names: Sequence[str], is_right: Callable[[str], bool], allowed: str
) -> Iterator[FieldError]:
    if len(names) > MAX_NAMES:
        yield _error(
            field,
            _(
                "{count} {field} are too many; the limit is {limit}.",
                count=len(names),
                field=field,
                limit=MAX_NAMES,
            ),
        )
        return
    wrong = [name for name in names if not is_right(name)]
    if wrong:
        yield _error(
            field,
            _(
                "{name!r} is not allowed in {field}; {allowed}.",
                name=wrong[0][:140],
                field=field,
                allowed=allowed,
            ),
        )


def _wrong_expiry(expires_at: datetime, now: datetime) -> Iterator[FieldError]:
    if expires_at.tzinfo is None:
        yield _error(
            "expires_at", _("The expiry {at} needs a time zone.", at=expires_at.isoformat())
        )
    elif expires_at <= now:
        yield _error(
            "expires_at",
            _("The expiry {at} is past; choose a later time.", at=expires_at),
        )


def _error(field: str, message: str) -> FieldError:
    return FieldError(field, "invalid", message)


def _list(words: Iterable[str]) -> str:
    return ", ".join(words)
