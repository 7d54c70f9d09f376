"""The errors of the platform: each has a stable code, an HTTP status and a message with advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from apps.common.messages import Message as _
from apps.common.messages import joined


@dataclass(frozen=True)
class FieldError:
    """The error of one field of a body, form or file.

    `field` is a dotted path with list positions in brackets (`params.count`, `jobs[3].type`);
    "" means the input as a whole.
    """

    field: str
    code: str
    message: str

    @property
    def named(self) -> str:
        """The message, prefixed with the name of its field."""
        if not self.field:
            return self.message
        return _("{field}: {message}", field=self.field, message=self.message)


class PlatformError(Exception):
    """Base of every error that the caller may read; `detail` is its message."""

    code = "invalid"
    status = 400
    title = "The request cannot be carried out"

    def __init__(
        self,
        detail: str = "",
        *,
        errors: Sequence[FieldError] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail or self.title)
        self.detail = detail or self.title
        self.errors = tuple(errors)
        self.retry_after = retry_after

    @classmethod
    def field(cls, field: str, message: str, *, code: str = "") -> Self:
        """The error of one wrong field, with a code of its own if it has one."""
        return cls(message, errors=[FieldError(field, code or cls.code, message)])


class Invalid(PlatformError):
    """A value breaks a rule; `errors` names each field."""

    title = "The input is not valid"


class Mistakes:
    """Collects the errors of several steps, so that the caller gets all of them at once.

    `with mistakes: step()` catches an error of the input (status 400); other errors pass through.
    Errors of later steps about a field that is wrong already are dropped: they may be
    consequences of the first one.
    """

    def __init__(self) -> None:
        self._raised: list[PlatformError] = []
        self._errors: list[FieldError] = []

    def __bool__(self) -> bool:
        return bool(self._raised)

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> bool:
        if not isinstance(error, PlatformError) or error.status != PlatformError.status:
            return False
        self.add(error)
        return True

    def add(self, error: PlatformError) -> None:
        """Collect the error of a step."""
        wrong = {_top(each.field) for each in self._errors if each.field}
        errors = error.errors or [FieldError("", error.code, error.detail)]
        new = [each for each in errors if _top(each.field) not in wrong]
        if new:
            self._raised.append(error)
            self._errors += new

    def raise_all(self) -> None:
        """Raise what was collected: a single error as it was, several as one Invalid."""
        if len(self._raised) == 1:
            raise self._raised[0]
        if self._raised:
            raise Invalid(self._raised[0].detail, errors=self._errors)


def _top(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]


class Malformed(PlatformError):
    """The body cannot be read as one JSON object."""

    code = "malformed"
    title = "The body is not readable JSON"


class UnknownField(PlatformError):
    code = "unknown_field"
    title = "The input names a field that does not exist"


class DuplicateKey(PlatformError):
    code = "duplicate_key"
    title = "A JSON object names the same key twice"


class TooDeep(PlatformError):
    code = "too_deep"
    title = "The JSON is nested too deeply"


class TooLarge(PlatformError):
    code = "too_large"
    status = 413
    title = "The input is too large"


class UnsupportedMediaType(PlatformError):
    """The body is not plain UTF-8 JSON by its own headers."""

    code = "unsupported_media_type"
    status = 415
    title = "Only application/json in UTF-8 is read here"


class MethodNotAllowed(PlatformError):
    code = "method_not_allowed"
    status = 405
    title = "This address does not know that method"


class BadText(PlatformError):
    """Text that not every database can store: NUL or a lone surrogate."""

    code = "bad_text"
    title = "A text holds characters that cannot be stored"


class LimitReached(PlatformError):
    code = "limit_reached"
    title = "A limit is reached"


class NotAuthenticated(PlatformError):
    code = "not_authenticated"
    status = 401
    title = "A valid API key is needed"


class Forbidden(PlatformError):
    code = "forbidden"
    status = 403
    title = "This key may not do that"


class NotFound(PlatformError):
    """The thing is unknown, or not visible to the caller: both get the same answer."""

    code = "not_found"
    status = 404
    title = "Not found"


class Conflict(PlatformError):
    """Another change came first, or the state does not allow this one."""

    code = "conflict"
    status = 409
    title = "The state does not allow this"


class ReplayConflict(Conflict):
    """A repeated request that differs from the first one; the first answer stays valid."""

    status = 422
    title = "A repeat must say the same as the first time"


class Throttled(PlatformError):
    code = "throttled"
    status = 429
    title = "Too many requests"


class Unavailable(PlatformError):
    """A part of the system is down; nothing was changed, or a repeat is safe."""

    code = "unavailable"
    status = 503
    title = "Not available for a moment"


class StorageFull(Unavailable):
    """The disk of the database is full; nothing was changed."""

    status = 507
    title = "No space left to store anything"


# The keys under which DRF and Django report errors of the object as a whole.
WHOLE = ("non_field_errors", "__all__")
_KINDS: dict[str, type[PlatformError]] = {
    kind.code: kind for kind in (Invalid, UnknownField, BadText, TooDeep, TooLarge, LimitReached)
}


def field_errors(detail: Any, path: str = "") -> list[FieldError]:
    """DRF's or Django's nested error detail as a flat list with paths like `jobs[3].type`."""
    if isinstance(detail, Mapping):
        return [
            error
            for key, below in detail.items()
            for error in field_errors(below, _below(path, key))
        ]
    if isinstance(detail, list | tuple):
        # A list of texts is about the field itself, any other about the items of a list.
        is_text = all(isinstance(part, str) for part in detail)
        return [
            error
            for position, part in enumerate(detail)
            for error in field_errors(part, path if is_text else _below(path, position))
        ]
    code = getattr(detail, "code", "invalid")
    return [FieldError(path, code if code in _KINDS else "invalid", str(detail))]


def refusal(errors: Sequence[FieldError]) -> PlatformError:
    """One error for all of them, with the code that they share, else `invalid`."""
    codes = {error.code for error in errors}
    kind = _KINDS.get(codes.pop(), Invalid) if len(codes) == 1 else Invalid
    messages = [error.named for error in errors[:3]]
    if len(errors) > 3:
        messages.append(_("{count} more.", count=len(errors) - 3))
    return kind(joined(messages), errors=errors)


def _below(path: str, key: Any) -> str:
    if isinstance(key, int):
        return f"{path}[{key}]"
    if key in WHOLE:
        return path
    return f"{path}.{key[:80]}" if path else str(key)[:80]
