"""An upgrade while all goes on: the parts of the last release beside those of this one.

The old code runs with the packages of this one: they are what an upgrade installs first, and what
the old parts have loaded by then they keep.
"""

from __future__ import annotations

import html
import importlib.util
import json
import random
import re
import secrets
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db.models import BooleanField, CharField, SmallIntegerField
from django.urls import reverse

from taskplatform import beat
from taskplatform.demo.company import PEOPLE
from tests.acceptance.conftest import SCOPES, make_key, new_environment, processes_of
from tests.acceptance.test_sdk_deaths import MANY, runs
from tests.databases import empty_database, run_manage
from tests.load import PLAN, Executors, Submitter, harm
from tests.processes import ROOT, RunningProcess, eventually
from tests.releases import check_out, last_release
from tests.serving import await_answer, signed_in, status_of, web_command
from tests.workers import Workers, make_type, rows

PASSWORD = secrets.token_urlsafe(16)
# A past of weeks, archived and reported, and what the demo has besides; then a person.
PAST = f"""
from django.core.management import call_command
call_command("migrate", verbosity=0)
call_command("demo", "--years", "0.1", verbosity=0)
call_command("createsuperuser", interactive=False, username="olga", email="olga@example.org")
call_command("demo", verbosity=0)
from taskplatform.demo import alerts, bulk
from apps.alerts.services.settings import create_channel
alerts.make_rules()
bulk.cancel_a_mistake()
address = {{"url": "https://example.org/hook", "secret": "sealed"}}
create_channel(actor="test", name="Nobody listens", kind="webhook", enabled=False, **address)
from django.contrib.auth.models import User
from apps.alerts.services.report_plans import create_plan
report = {{"query": "source=job&by=type&period=24h&zone=UTC", "time_zone": "UTC"}}
olga = User.objects.get(username="olga")
create_plan(title="Minutely", rule={{"every_minutes": 1}}, owner=olga, actor="test", **report)
{PLAN}
"""
SWEEPS = """
from taskplatform.celery import app
app.loader.import_default_modules()
print(*app.tasks)
"""
# In-house; of them there are more at a time than the slot for slow jobs of one release takes.
NAP = {"type": "demo-slow", "context": {"seconds": 0.05}}
MINUTELY = {"title": "Minutely", "job_type": "many", "rule": {"every_minutes": 1}}
OLD_REPORTS = "SELECT occurrence FROM alerts_reportrun"
REPORTS = (
    "SELECT occurrence FROM schedules_schedulerun WHERE schedule_id IN "
    "(SELECT schedule_ptr_id FROM alerts_report)"
)
# What each kind of load has done before the next step, at least.
ENOUGH = 25
SERVER_ERROR = re.compile(r'" 5\d\d |"level": "ERROR"|Traceback', re.MULTILINE)
# Values of a column whose rows are read one by one.
VALUES = 6
# Pages of one kind that links lead to.
ALIKE = 2
LINK = re.compile(r'href="(/admin/[^"#]*)"')
# What makes a page one of many: keys of rows, and values of filters.
KEY = re.compile(r"(?<=/)[^/]+(?=/(change|history|delete)/)|\d+|(?<==)[^&]*")


class Release(NamedTuple):
    """The code of a release, on this machine."""

    name: str
    root: Path
    environment: dict[str, str]
    start: Callable[..., RunningProcess]

    @property
    def workers(self) -> Workers:
        return Workers(self.start, self.environment)

    @property
    def library(self) -> ModuleType:
        """Its client library, as programs elsewhere have a copy of it."""
        name = f"sdk_of_{self.name}"
        spec = importlib.util.spec_from_file_location(name, self.root / "taskplatform" / "sdk.py")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    def manage(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        done = run_manage({**self.environment, **variables}, *arguments, root=self.root)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def sweeps(self) -> set[str]:
        """The sweeps that its workers know."""
        return {*self.manage("shell", "--verbosity", "0", "--command", SWEEPS).stdout.split()}

    def web(self) -> tuple[RunningProcess, str]:
        """A web server that logs each request, and its address."""
        port, command = web_command()
        web = self.start(*command, "--access-log", WEB_THREADS="8")
        await_answer(web, port)
        assert status_of(port, "/health/ready") == 200, web.output
        return web, f"http://127.0.0.1:{port}"

    def in_house(self) -> list[RunningProcess]:
        """Sweeps with beat, and drains: forked ones need Redis."""
        pool = "prefork" if self.environment["REDIS_URL"] else "threads"
        own = {"EXTRA_APPS": ""}
        drains = self.workers.drains(pool=pool, name=self.name, **own)
        return [self.workers.sweeps(**own), drains]

    def has_done(self) -> bool:
        """Whether jobs have ended in its drains."""
        ended = f"SELECT 1 FROM journal_journalentry WHERE worker LIKE '{self.name}@%'"
        return bool(self.rows(f"{ended} AND to_state = 'succeeded' LIMIT 1"))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return rows(self.environment["DATABASE_URL"], sql)

    def outside(self, url: str, key: str, name: str) -> RunningProcess:
        """A worker over HTTP beside a copy of the client."""
        file = Path(self.environment["VAR_DIR"], f"{name}.py")
        folder = self.root / "taskplatform"
        file.write_text(f"import os, sys\nsys.path.insert(0, {str(folder)!r})\n{MANY}")
        return self.start(sys.executable, "-I", "-S", str(file), name, URL=url, KEY=key)


class Load:
    """Dispatch, jobs in-house and jobs of workers over HTTP, at the web servers of releases, whose
    `parts` it watches."""

    def __init__(self, ends: ExitStack, key: str) -> None:
        self._ends, self._key = ends, key
        self._is_over = False
        self.parts: list[RunningProcess] = []
        self.submitters: list[Submitter] = []
        self.executors: list[Executors] = []
        self.workers: list[RunningProcess] = []

    def add(self, release: Release, url: str, *uids: str) -> None:
        """Callers with the client library of the release."""
        library = release.library
        self.submitters += [
            Submitter(library, url, self._key, job, batch=batch, pause=pause, timeout=60.0)
            for job, batch, pause in ((NAP, 2, 0.2), ({"type": "many"}, 5, 0.5))
        ]
        self.executors.append(Executors(library, url, self._key, uids))
        for each in (*self.submitters[-2:], self.executors[-1]):
            each.start()
            self._ends.callback(each.end)
        self.workers.append(release.outside(url, self._key, f"pi-{len(self.workers)}"))

    def done(self) -> list[int]:
        """How much each part has done."""
        return [
            *(len(each.acknowledged) for each in self.submitters),
            *(len(each.ended) for each in self.executors),
            *(len(runs(each)) for each in self.workers),
        ]

    def await_more(self, enough: int = ENOUGH) -> None:
        before = self.done()

        def have_done() -> bool:
            self.require_no_trouble()
            return all(now >= then + enough for now, then in zip(self.done(), before, strict=True))

        eventually(have_done, seconds=180, pause=0.5)

    def require_no_trouble(self) -> None:
        """AssertionError when a part of the platform has logged an error, or a caller met one."""
        for part in self.parts:
            found = SERVER_ERROR.search(part.output)
            assert found is None, part.output[max(0, found.start() - 500) :][:12_000]
        assert [each.failures for each in self.submitters if each.failures] == []
        assert [each.trouble for each in self.executors if each.trouble] == []
        assert all(each.is_alive() for each in self.submitters) or self._is_over

    def end(self) -> None:
        self._is_over = True
        for each in (*self.submitters, *self.executors):
            each.end()


@pytest.fixture
def database_url(tmp_path: Path) -> Iterator[str]:
    with empty_database(tmp_path) as url:
        yield url


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    """What is ended after the test, before the databases go."""
    with ExitStack() as made:
        yield made


@pytest.fixture
def release_of(
    database_url: str, tmp_path: Path, ends: ExitStack
) -> Callable[[Path, str], Release]:
    """`release_of(ROOT, "new")`: that code, with the database and files of the one platform."""
    var = tmp_path / "var"
    var.mkdir()

    def made(root: Path, name: str) -> Release:
        environment = {"REDIS_URL": "", **new_environment(var, database_url)}
        return Release(
            name, root, environment, ends.enter_context(processes_of(environment, var, root))
        )

    return made


@pytest.fixture
def old(tmp_path: Path, release_of: Callable[[Path, str], Release]) -> Release:
    """The last release, with a past."""
    _, commit = last_release((ROOT / "CHANGELOG.md").read_text())
    check_out(commit, tmp_path / "old")
    release = release_of(tmp_path / "old", "old")
    release.manage(
        "shell", "--verbosity", "0", "--command", PAST, DJANGO_SUPERUSER_PASSWORD=PASSWORD
    )
    return release


@pytest.fixture
def new(release_of: Callable[[Path, str], Release]) -> Release:
    return release_of(ROOT, "new")


@pytest.mark.long
def test_release_before_goes_on_beside_this_one_and_after_it(
    old: Release, new: Release, ends: ExitStack, subtests: pytest.Subtests
) -> None:
    """First `migrate`, then the parts one after the other; and back again."""
    assert old.sweeps() >= beat.SHARING
    key = make_key(old.environment, "Everything", *SCOPES, "pull", "payload", root=old.root)
    old_web, old_url = old.web()
    with old.library.Client(old_url, key) as client:
        make_type(client, "many", lease_seconds=120)
        client._call("/schedules/", MINUTELY, lambda answer: None)
    old_parts = old.in_house()
    load = Load(ends, key)
    load.parts += [old_web, *old_parts]
    load.add(old, old_url, *list(PEOPLE)[::2])
    load.await_more()
    eventually(lambda: bool(old.rows(OLD_REPORTS)), seconds=90)

    new.manage("migrate", "--verbosity", "0")
    reported = old.rows(OLD_REPORTS)
    load.await_more()
    new.manage("collectstatic", "--no-input", "--verbosity", "0")
    new_web, new_url = new.web()
    new_parts = new.in_house()
    load.parts += [new_web, *new_parts]
    load.add(old, new_url, *list(PEOPLE)[1::4])
    load.add(new, new_url, *list(PEOPLE)[3::4])
    load.await_more()
    eventually(lambda: old.has_done() and new.has_done(), seconds=120)
    for part in old_parts:
        part.end()
    load.await_more()
    # Each time of the report is one of its schedule, and the old sweeps have sent none beside.
    eventually(lambda: len(new.rows(REPORTS)) > len(reported), seconds=90)
    assert old.rows(OLD_REPORTS) == reported
    load.end()
    statuses = new.workers.settled(seconds=180)

    begun = Counter(number for each in load.workers for number in runs(each))
    assert harm(new.workers, load.submitters, load.executors, begun) == {}
    # Of the past, some failed, and a bulk run cancelled others.
    assert set(statuses) == {"succeeded", "failed", "cancelled"}
    for release in (old, new):
        assert release.manage("audit", "--recent", "1000000").stdout.startswith("ok: ")
    for part in new_parts:
        part.end()

    new.manage("migrate", "alerts", "0007", "--verbosity", "0")
    assert old.rows("SELECT enabled, next_at IS NULL FROM alerts_reportplan") == [(1, 0)]
    old_web.end()
    old.manage("migrate", "--verbosity", "0")
    again = old.in_house()
    load.parts += again
    eventually(old.workers.processes, seconds=60)
    for part in again:
        part.end()
    old.manage("collectstatic", "--no-input", "--verbosity", "0")
    back, back_url = old.web()
    load.parts.append(back)
    signed_in(back_url, "olga", PASSWORD)
    check_answers(Caller(back_url, key), Caller(new_url, key), subtests)
    new.manage("migrate", "--verbosity", "0")
    check_pages(new, new_url, subtests)
    load.require_no_trouble()


def test_release_that_a_clone_does_not_have_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="git fetch --unshallow"):
        check_out("0" * 40, tmp_path / "old")


# --- Over the API ---------------------------------------------------------------------------------


class Caller:
    """A program with a key that reads at one address."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._opener = urllib.request.build_opener()
        headers = {"Authorization": f"Bearer {key}", "Accept": "application/json"}
        self._opener.addheaders = list(headers.items())

    def get(self, path: str) -> Any:
        """The JSON of the answer, of a refusal, too, but without the number of the request."""
        try:
            with self._opener.open(self._url + path, timeout=60) as raw:
                return json.load(raw)
        except urllib.error.HTTPError as error:
            return {**json.load(error), "request_id": ""}


def check_answers(old: Caller, new: Caller, subtests: pytest.Subtests) -> None:
    """Each GET that the old release has is answered by the new one with the same, and more."""
    described = old.get("/api/schema/")["paths"]
    gets = [path for path, ways in described.items() if "get" in ways]
    paths = [each for path in gets if "{" not in path for each in lists_and_rows(path, gets, old)]
    assert len(paths) > 40
    for path in paths:
        with subtests.test(path=path):
            # What depends on the present may differ once.
            for _ in range(3):
                missing = lacking(old.get(path), new.get(path))
                if not missing:
                    break
            assert missing == []


def lists_and_rows(path: str, gets: Sequence[str], caller: Caller) -> Iterator[str]:
    """The first pages of a list, and some of its rows by all addresses that they have."""
    page, items = path, []
    for _ in range(ALIKE):
        yield page
        found = caller.get(page)
        items += found.get("results", ())
        if not found.get("next"):
            break
        page = found["next"]
    for item in random.sample(items, min(len(items), 2 * ALIKE)):
        for each in gets:
            name = each.removeprefix(path).partition("}")[0]
            if each.startswith(path + "{"):
                value = item.get(name[1:], item.get("id"))
                yield each.replace(name + "}", urllib.parse.quote(str(value)))


def lacking(old: Any, new: Any, where: str = "") -> list[str]:
    """What the old answer says and the new one does not."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            each
            for name in old
            for each in (
                lacking(old[name], new[name], f"{where}.{name}")
                if name in new
                else [f"{where}.{name}"]
            )
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [each for n, pair in pairs for each in lacking(*pair, f"{where}[{n}]")]
    return [] if old == new or are_of_now(old, new) else [f"{where}: {old!r} became {new!r}"]


def are_of_now(*texts: Any) -> bool:
    """Whether they are the instants at which two servers were asked, one after the other."""
    try:
        first, second = (datetime.fromisoformat(each) for each in texts)
    except (TypeError, ValueError):
        return False
    return timedelta() < second - first < timedelta(seconds=10)


# --- On the pages ---------------------------------------------------------------------------------


def rows_unlike_each_other(release: Release) -> Iterator[str]:
    """The change pages of the oldest rows of each table, with each value of its columns."""
    for model in admin.site._registry:
        options = model._meta
        key = options.pk.column
        sql = f"SELECT MIN({key}) FROM {options.db_table}"
        keys = set(release.rows(sql))
        for field in options.local_concrete_fields:
            if isinstance(field, CharField | BooleanField | SmallIntegerField):
                keys.update(release.rows(f"{sql} GROUP BY `{field.column}` LIMIT {VALUES}"))
        name = f"admin:{options.app_label}_{options.model_name}_change"
        yield from (reverse(name, args=[quote(key)]) for (key,) in keys if key is not None)


def check_pages(release: Release, url: str, subtests: pytest.Subtests) -> None:
    """Those of old rows, and what links lead to from the overview, some of each kind."""
    browser = signed_in(url, "olga", PASSWORD)
    wanted = ["/admin/", *rows_unlike_each_other(release)]
    # The sign-in leads on to Home.
    seen, alike = {reverse("admin:login"), *wanted}, Counter[str]()
    while wanted:
        path = wanted.pop()
        with subtests.test(page=path):
            with browser.open(url + path, timeout=60) as page:
                text = page.read().decode()
                # A report plan is a schedule with a page of its own.
                own = path.replace("/schedules/schedule/", "/alerts/reportplan/")
                assert page.url in (url + path, url + own)
        if "?" in path:
            continue
        for link in map(html.unescape, LINK.findall(text)):
            kind = KEY.sub("…", link)
            if link not in seen and alike[kind] < ALIKE:
                alike[kind] += 1
                seen.add(link)
                wanted.append(link)
    assert len(seen) > 200
