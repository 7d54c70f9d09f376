"""Debian's Chromium against the whole platform: its middleware, collected static files and all.

A page that loads anything from elsewhere, breaks its Content-Security-Policy, writes an error to
the console or lets a script fail makes its test fail.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.handlers.wsgi import WSGIHandler
from django.core.management import call_command
from django.core.signals import request_finished, request_started
from django.test import Client, override_settings
from django.test.testcases import LiveServerThread
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    expect,
    sync_playwright,
)

import taskplatform.settings
from tests.processes import eventually

SHELL = "chromium-headless-shell"
# Playwright's own list, which this one replaces; and the two pages that Chromium makes for
# suggestions below the address of each window: they take longer than most pages of the platform.
NOT_USED = (
    "AvoidUnnecessaryBeforeUnloadCheckSync,DestroyProfileOnBrowserClose,HttpsUpgrades,"
    "HttpsFirstBalancedModeAutoEnable,LensOverlay,MediaRouter,PaintHolding,"
    "ThirdPartyStoragePartitioning,AvoidCorsURLLoaderRestartOnRedirect,OptimizationHints,"
    "NetworkTimeServiceQuerying,AimEnabled,PreconnectToSearch,"
    "WebUIOmniboxPopup,WebUIOmniboxAimPopup,SpareRendererForSitePerProcess"
)
ARGUMENTS = [
    f"--disable-features={NOT_USED}",
    "--no-sandbox",
    "--disable-gpu",
    # Letters as wide as in a window.
    "--font-render-hinting=none",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # A new process for a page takes as long as to show three.
    "--renderer-process-limit=1",
    # A proxy that nobody answers: whatever is not on this machine cannot be reached.
    "--proxy-server=127.0.0.1:9",
    "--proxy-bypass-list=127.0.0.1",
]
# htmx says so of what a page has asked for and is left before the answer comes.
BROKEN_OFF = ("htmx:sendAbort", "htmx:afterRequest")
# For a condition or a page, on a machine that is busy with much else, too.
PATIENCE_MS = 60_000


class Watch:
    """Collects what a page must not do; `allow` names an error that a test provokes."""

    def __init__(self, site: str) -> None:
        self._host = urlsplit(site).netloc
        self._complaints: list[str] = []
        self._allowed: list[str] = []
        # By event of a context.
        self._notices: list[tuple[Any, Callable[..., None]]] = [
            ("request", self._on_request),
            ("console", self._on_console),
            ("weberror", lambda error: self._note("script", str(error.error))),
        ]

    def allow(self, pattern: str) -> None:
        """Expect at least one complaint in which the regular expression is found."""
        self._allowed.append(pattern)

    def attend(self, context: BrowserContext) -> None:
        """Watch every page of the context and all its requests."""
        for event, notice in self._notices:
            context.on(event, notice)

    def leave(self, context: BrowserContext) -> None:
        """Watch it no longer."""
        for event, notice in self._notices:
            context.remove_listener(event, notice)

    def settle(self, context: BrowserContext) -> None:
        """Wait for what the pages have yet to report."""
        for page in context.pages:
            page.evaluate("() => new Promise(done => setTimeout(done))")

    def _on_request(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob") and address.netloc != self._host:
            self._note("foreign request", request.url)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and message.text not in BROKEN_OFF:
            self._note("console", f"{message.text} ({message.location['url']})")

    def _note(self, kind: str, text: str) -> None:
        self._complaints.append(f"{kind}: {text}")

    def verdict(self) -> list[str]:
        """What was not allowed, and what was allowed but never came."""

        def fits(pattern: str, complaint: str) -> bool:
            return re.search(pattern, complaint) is not None

        unexpected = [c for c in self._complaints if not any(fits(p, c) for p in self._allowed)]
        missing = [p for p in self._allowed if not any(fits(p, c) for c in self._complaints)]
        return [*unexpected, *(f"expected but never seen: {pattern}" for pattern in missing)]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    binary = shutil.which(SHELL)
    if binary is None:
        pytest.fail(f"{SHELL} is not installed; as root run: apt-get install --yes {SHELL}")
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        # Playwright runs an event loop in this thread, in which Django would refuse all queries.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        expect.set_options(timeout=PATIENCE_MS)
        browser = playwright.chromium.launch(executable_path=binary, args=ARGUMENTS)
        yield browser
        asyncio._set_running_loop(playwright._loop)
        browser.close()


class Contexts:
    """Cookies and pages of people at a browser. Tests borrow a context and give it back: to make a
    new one takes as long as to show four pages."""

    def __init__(self, browser: Browser, site: str) -> None:
        self._browser, self._site = browser, site
        self._free: list[BrowserContext] = []

    def new(self, *, scripts: bool = True, **options: Any) -> BrowserContext:
        """A context in which nobody is signed in; its relative addresses are those of the site."""
        context = self._browser.new_context(
            base_url=self._site, timezone_id="UTC", java_script_enabled=scripts, **options
        )
        context.set_default_timeout(PATIENCE_MS)
        return context

    def borrow(self) -> BrowserContext:
        """Like a new one, except that it may have kept files that never change."""
        return self._free.pop() if self._free else self.new()

    def give_back(self, context: BrowserContext) -> None:
        """Forget what its pages have left behind, and close them."""
        session = context.new_cdp_session(context.pages[0])
        session.send("Storage.clearDataForOrigin", {"origin": self._site, "storageTypes": "all"})
        context.clear_cookies()
        for page in context.pages:
            page.close()
        self._free.append(context)


@pytest.fixture(scope="session")
def contexts(chromium: Browser, server: Site) -> Contexts:
    return Contexts(chromium, server.address)


@pytest.fixture(autouse=True)
def loop_of_the_browser(chromium: Browser) -> Iterator[None]:
    """Playwright's event loop runs in this thread from its start on; between tests of pages nobody
    sees it, because asynchronous code of other tests would refuse to run beside it."""
    asyncio._set_running_loop(chromium._loop)
    yield
    asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def collected_static() -> None:
    with override_settings(STORAGES=taskplatform.settings.STORAGES):
        call_command("collectstatic", interactive=False, verbosity=0)


class Platform(WSGIHandler):
    """The platform, which knows how many requests it has not answered to the end."""

    def __init__(self) -> None:
        super().__init__()
        self.open = 0
        self._lock = threading.Lock()
        request_started.connect(self._begin, sender=Platform)
        request_finished.connect(self._end, sender=Platform)

    def _begin(self, **_signal: Any) -> None:
        with self._lock:
            self.open += 1

    def _end(self, **_signal: Any) -> None:
        with self._lock:
            self.open -= 1


class Site:
    """A port at which each test has a platform of its own; between tests there is none.

    Not pytest-django's live_server, which serves static files in place of the platform.
    """

    def __init__(self) -> None:
        self.platform: Platform | None = None
        self._server = LiveServerThread("127.0.0.1", lambda _media: self)
        self._server.daemon = True
        self._server.start()
        self._server.is_ready.wait()
        if self._server.error:
            raise self._server.error
        self.address = f"http://127.0.0.1:{self._server.port}"

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        if self.platform is None:
            start_response("503 Service Unavailable", [("Content-Length", "0")])
            return []
        return self.platform(environ, start_response)

    def close(self) -> None:
        self._server.terminate()


@pytest.fixture(scope="session")
def server() -> Iterator[Site]:
    server = Site()
    yield server
    server.close()


@pytest.fixture
def live_site(transactional_db: None, collected_static: None, server: Site) -> Iterator[str]:
    """The platform: its address without a slash at the end."""
    with override_settings(STORAGES=taskplatform.settings.STORAGES):
        server.platform = platform = Platform()
        yield server.address
        server.platform = None
        # A page that has been closed does not wait for what it has asked for, and the rows and the
        # memory that an answer is made of are those of the next test.
        eventually(lambda: platform.open < 1, seconds=60)


@pytest.fixture
def watch(live_site: str) -> Iterator[Watch]:
    watch = Watch(live_site)
    yield watch
    verdict = watch.verdict()
    if verdict:
        pytest.fail("The pages did what they must not:\n" + "\n".join(verdict), pytrace=False)


_HAS_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[_HAS_FAILED] = True
    return report


@pytest.fixture
def page_as(
    contexts: Contexts,
    live_site: str,
    watch: Watch,
    role_user: Callable[[str], User],
    request: pytest.FixtureRequest,
) -> Iterator[Callable[..., Page]]:
    """`page_as("operator")` is a page signed in with that role, `"superuser"` as one, None as none.

    Each has cookies of its own. Relative addresses are those of `live_site`. Without `scripts` the
    browser runs none, as some people set it; `own` is for tests that change the browser's clock.
    """
    borrowed: list[BrowserContext] = []
    owned: list[BrowserContext] = []
    # Timers rest where no script runs.
    silent: list[BrowserContext] = []

    def page_as(role: str | None, *, scripts: bool = True, own: bool = False) -> Page:
        if own or not scripts:
            context = contexts.new(scripts=scripts)
            (owned if scripts else silent).append(context)
        else:
            context = contexts.borrow()
            borrowed.append(context)
        watch.attend(context)
        if role is not None:
            user = _superuser() if role == "superuser" else role_user(role)
            context.add_cookies([{**_session_cookie(user), "url": live_site}])  # type: ignore[typeddict-item]
        return context.new_page()

    yield page_as
    if request.node.stash.get(_HAS_FAILED, False):
        for page in (each for context in (*borrowed, *owned, *silent) for each in context.pages):
            text = f"{page.url}\n{page.locator('body').inner_text()[:3_000]}"
            request.node.add_report_section("teardown", "page", text)
    for context in (*borrowed, *owned):
        watch.settle(context)
    for context in borrowed:
        watch.leave(context)
        contexts.give_back(context)
    for context in (*owned, *silent):
        context.close()


def _superuser() -> User:
    return User.objects.filter(username="admin").first() or User.objects.create_superuser("admin")


def _session_cookie(user: User) -> dict[str, Any]:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    name = settings.SESSION_COOKIE_NAME
    return {"name": name, "value": client.cookies[name].value}


@pytest.fixture
def browser_page(page_as: Callable[[str | None], Page]) -> Page:
    """A page signed in as superuser: `browser_page.goto("/admin/")`."""
    return page_as("superuser")
