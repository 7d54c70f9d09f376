"""The mistakes the platform can name: a stable code, an HTTP status, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from apps.common.sentences import sentence as _


@dataclass(frozen=True)
class FieldError:
    """What is wrong with one field of a body, form or file.

    `field` is a dotted path with list positions in brackets (`params.count`, `jobs[3].type`);
    "" means the input as a whole.
    """

    field: str
    code: str
    message: str

    @property
    def named(self) -> str:
        """The message, after the name of the field where there is one."""
        if not self.field:
            return self.message
        return _("{field}: {message}", field=self.field, message=self.message)


class PlatformError(Exception):
    """Base of every error that is the caller's to read; the message is the `detail`."""

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


class Invalid(PlatformError):
    """A value breaks a rule; `errors` names each field."""

    title = "The input is not valid"

    @classmethod
    def field(cls, field: str, message: str, *, code: str = "invalid") -> Invalid:
        """One wrong field, told in one sentence."""
        return cls(message, errors=[FieldError(field, code, message)])


class Mistakes:
    """Collects what several steps refuse, so that all of it is told at once.

    `with mistakes: step()` goes on after a refusal of the input (status 400); other errors pass.
    What a later step says of a field that was refused before is left out: it could not be judged.
    """

    def __init__(self) -> None:
        self._refused: list[PlatformError] = []
        self._told: list[FieldError] = []

    def __bool__(self) -> bool:
        return bool(self._refused)

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
        """What a step has refused."""
        before = {_top(each.field) for each in self._told if each.field}
        errors = error.errors or [FieldError("", error.code, error.detail)]
        news = [each for each in errors if _top(each.field) not in before]
        if news:
            self._refused.append(error)
            self._told += news

    def tell(self) -> None:
        """Raise what was refused: the one error as it was, of several an Invalid with all."""
        if len(self._refused) == 1:
            raise self._refused[0]
        if self._refused:
            raise Invalid(self._refused[0].detail, errors=self._told)


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
    """Unknown, or not the caller's to see: the two answer alike."""

    code = "not_found"
    status = 404
    title = "Not found"


class Closed(PlatformError):
    """The dispatch or job has already ended in another way."""

    code = "closed"
    status = 409
    title = "Already closed"


class Conflict(PlatformError):
    """Somebody else changed it first, or the state does not allow it."""

    code = "conflict"
    status = 409
    title = "The state does not allow this"


class LeaseLost(PlatformError):
    """The job was taken away meanwhile; nothing was changed, and what was done may be redone."""

    code = "lease_lost"
    status = 409
    title = "The lease of this job is over"


class ReplayConflict(Conflict):
    """A repeat that says something else than the first time; the first answer stands."""

    status = 422
    title = "A repeat must say the same as the first time"


class Throttled(PlatformError):
    code = "throttled"
    status = 429
    title = "Too many requests"


class Unavailable(PlatformError):
    """A part is away for a moment; nothing was changed, or a repeat is safe."""

    code = "unavailable"
    status = 503
    title = "Not available for a moment"


class StorageFull(Unavailable):
    """The disk of the database is full; nothing was changed."""

    status = 507
    title = "No space left to store anything"
