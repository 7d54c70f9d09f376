"""The web entry point, which `manage.py web` and `make run` serve with granian.

It reads each request whole before it spends a thread on it, and passes the answer on whole. So a
caller who sends or reads slowly holds a connection, of which there are thousands, and no thread.
RSGI is granian's own interface: its answers leave from the thread that has made them.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BufferedReader, BytesIO
from tempfile import SpooledTemporaryFile
from typing import IO, Any, TypeAlias

# Public, but exported by no `__all__`.
from granian.rsgi import HTTPProtocol, ProtocolClosed, Scope  # type: ignore[attr-defined]

from apps.common.api.problems import REFUSED
from apps.common.errors import PlatformError, TooLarge, Unavailable
from apps.common.messages import Message as _
from taskplatform.callers import Callers
from taskplatform.turns import Turns
from taskplatform.wsgi import application as django

# After the import above, which names the settings.
from django.conf import settings  # isort: skip
from taskplatform import sign_ins  # isort: skip

Environ: TypeAlias = dict[str, Any]
Headers: TypeAlias = list[tuple[str, str]]

# The largest body that any page or call takes; most take less and check it themselves.
BODY_BYTES: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
# How long a body may take after the headers.
BODY_SECONDS = 60.0
# A longer body lies in a temporary file. How much all these files may hold.
MEMORY_BYTES = 65_536
FILES_BYTES = 512 * 1024 * 1024

# Requests that hash a password take a processor for a good part of a second, on purpose, and files
# of 100,000 rows for ten seconds.
_HASHES = re.compile(r"/admin/(login|password_change|auth/user/add|auth/user/[0-9]+/password)/")
_FILES = re.compile(r"/admin/(reports|.+/[0-9]+)/csv/|/admin/.+/export/")
_SIGN_IN = "/admin/login/"
MAX_HASHES, MAX_HASHES_OF_ADDRESS = 20, 10
# So few that proxies, which wait for a minute, still pass on the answer to the last one.
MAX_FILES, MAX_FILES_OF_ADDRESS = 4, 2

# The rest of the body would be taken for the next request.
_CLOSE = ("connection", "close")


class Body:
    """A body that is long, or in chunks."""

    # Bytes in the temporary files of all requests of this process.
    in_files = 0

    def __init__(self) -> None:
        self.size = 0
        self._in_file = 0
        self.file: IO[bytes] = SpooledTemporaryFile(max_size=MEMORY_BYTES)

    def add(self, part: bytes) -> None:
        """TooLarge or Unavailable when there is no room for it."""
        self.size += len(part)
        if self.size > BODY_BYTES:
            raise _too_large()
        if self.size > MEMORY_BYTES:
            Body.in_files += self.size - self._in_file
            self._in_file = self.size
            if Body.in_files > FILES_BYTES:
                raise Unavailable("Too many large bodies arrive at once; send this one again.")
        self.file.write(part)

    def close(self) -> None:
        Body.in_files -= self._in_file
        self.file.close()


def _too_large() -> PlatformError:
    return TooLarge(f"The body is larger than {BODY_BYTES} bytes; send less at a time.")


class Application:
    """Runs a WSGI application in threads of its own, each request when it is complete."""

    def __init__(
        self, wsgi: Callable[..., Iterable[bytes]], *, threads: int, trusted: Iterable[str]
    ) -> None:
        self._wsgi = wsgi
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="web")
        self.passwords = Turns(
            "passwords",
            MAX_HASHES,
            MAX_HASHES_OF_ADDRESS,
            _("Too many people are signing in at this moment; try again in a few seconds."),
            3,
        )
        self.files = Turns(
            "files",
            MAX_FILES,
            MAX_FILES_OF_ADDRESS,
            _("Too many files are being made at this moment; try again in half a minute."),
            30,
        )
        self._callers = Callers(trusted)

    async def __rsgi__(self, scope: Scope, protocol: HTTPProtocol) -> None:
        environ = self._environ(scope)
        body = None
        try:
            if "CONTENT_LENGTH" in environ or "HTTP_TRANSFER_ENCODING" in environ:
                async with asyncio.timeout(BODY_SECONDS):
                    body = await _receive(environ, protocol)
        except (ProtocolClosed, TimeoutError) as error:
            # Answered without a thread: many requests may end so at once, and few callers read it.
            protocol.response_empty(408 if isinstance(error, TimeoutError) else 400, [_CLOSE])
            return
        except PlatformError as refusal:
            environ |= {REFUSED: refusal, "wsgi.input": BytesIO()}
        try:
            await self._answered(environ, protocol)
        finally:
            if body:
                body.close()

    async def _answered(self, environ: Environ, protocol: HTTPProtocol) -> None:
        turns = None if REFUSED in environ else self._turns_of(environ)
        address = environ["REMOTE_ADDR"]
        if turns:
            if not (refusal := await self._refusal(environ) or turns.refusal(address)):
                await turns.run(address, self._answer, environ, protocol)
                return
            environ |= {REFUSED: refusal, "wsgi.input": BytesIO()}
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, self._answer, environ, protocol)

    def _turns_of(self, environ: Environ) -> Turns | None:
        """Whose turns the request takes; None for the most, which are short."""
        path = environ["PATH_INFO"]
        if environ["REQUEST_METHOD"] == "POST" and _HASHES.fullmatch(path):
            return self.passwords
        return self.files if _FILES.fullmatch(path) else None

    async def _refusal(self, environ: Environ) -> PlatformError | None:
        """Why a limit refuses a sign-in: it would take a place for nothing."""
        if environ["PATH_INFO"] != _SIGN_IN:
            return None
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, sign_ins.refusal, environ)

    def _environ(self, scope: Scope) -> Environ:
        """The request as WSGI describes it, without its body."""
        server, port = _address(scope.server)
        environ: Environ = {
            "REQUEST_METHOD": scope.method,
            "SCRIPT_NAME": "",
            "PATH_INFO": scope.path.encode().decode("latin1"),
            "QUERY_STRING": scope.query_string,
            "SERVER_NAME": server,
            "SERVER_PORT": port,
            "SERVER_PROTOCOL": f"HTTP/{scope.http_version}",
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": scope.scheme,
            "wsgi.input": BytesIO(),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
            "wsgi.file_wrapper": _File,
        }
        for header, text in scope.headers.items():
            # X_Forwarded_For would otherwise pass for the X-Forwarded-For of a proxy.
            if "_" in header:
                continue
            name = header.upper().replace("-", "_")
            if name not in {"CONTENT_LENGTH", "CONTENT_TYPE"}:
                name = f"HTTP_{name}"
            if name in environ:
                text = environ[name] + (";" if name == "HTTP_COOKIE" else ",") + text
            environ[name] = text
        forwarded = environ.get("HTTP_X_FORWARDED_FOR", "")
        environ["REMOTE_ADDR"] = self._callers.address_of(_address(scope.client)[0], forwarded)
        return environ

    def _answer(self, environ: Environ, protocol: HTTPProtocol) -> None:
        """Let Django answer. Called in a thread."""
        begun: list[tuple[int, Headers]] = []

        def begin(status: str, headers: Headers, _error: object = None) -> None:
            end = [_CLOSE] if REFUSED in environ else []
            begun.append((int(status[:3]), [(name.lower(), text) for name, text in headers] + end))

        answer = self._wsgi(environ, begin)
        try:
            if isinstance(answer, _File) and (path := answer.path):
                protocol.response_file(*begun[0], path)
            else:
                protocol.response_bytes(*begun[0], b"".join(answer))
        finally:
            if close := getattr(answer, "close", None):
                close()


async def _receive(environ: Environ, protocol: HTTPProtocol) -> Body | None:
    """Read the body into the environ; ProtocolClosed when it breaks off.

    Most are short and read by the server itself; others are returned, to be closed.
    """
    declared = int(environ.get("CONTENT_LENGTH", -1))
    if declared > BODY_BYTES:
        raise _too_large()
    if 0 <= declared <= MEMORY_BYTES:
        environ["wsgi.input"] = BytesIO(await protocol())
        return None
    body = Body()
    try:
        async for part in protocol:
            body.add(part)
        if declared not in {-1, body.size}:
            raise ProtocolClosed
    except BaseException:
        body.close()
        raise
    body.file.seek(0)
    # The length also of a body in chunks, which Django would not read without one.
    environ |= {"wsgi.input": body.file, "CONTENT_LENGTH": str(body.size)}
    return body


def _address(text: str) -> tuple[str, str]:
    """Host and port of 127.0.0.1:8000 or [::1]:8000."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), port


class _File:
    """A file as the answer: the server reads it while it sends, so it takes no memory."""

    def __init__(self, file: IO[bytes], block_size: int = MEMORY_BYTES) -> None:
        self._file = file
        self._block_size = block_size
        self.close = file.close

    @property
    def path(self) -> str:
        """The path of a whole file on the disk; "" for a part of one or something else."""
        if isinstance(self._file, BufferedReader) and self._file.tell() == 0:
            return str(self._file.name) if isinstance(self._file.name, str) else ""
        return ""

    def __iter__(self) -> Iterator[bytes]:
        while part := self._file.read(self._block_size):
            yield part


application = Application(django, threads=settings.WEB_THREADS, trusted=settings.TRUSTED_PROXIES)
