"""What the READMEs name is there: commands and their options, targets of make, calls, settings,
files."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery.bin.worker import worker as celery_worker
from django.core.management import BaseCommand, get_commands, load_command_class
from django.urls import Resolver404, resolve
from django.utils.module_loading import import_string

from taskplatform.celery import app as celery
from tests.catalogue import read_po
from tests.processes import ROOT

READMES = sorted(
    [*ROOT.glob("README*.md"), *ROOT.glob("apps/**/README*.md"), *ROOT.glob("taskplatform/**/*.md")]
)
IN_CHINESE = [path for path in READMES if path.name.endswith(".zh.md")]
# What the outbox adds to the commands of other projects.
OF_CLIENT = ROOT / "taskplatform/client/outbox/management/commands"
# Figures that the README of a box states, and the constants that they are.
FIGURES = {
    ("alerts", "at most {} for a rule"): "alerts.services.judging.MAX_OPEN",
    ("alerts", "the first {} `rows`"): "alerts.services.report_message.MAX_ROWS",
    ("asyncflow", "at most {} bytes"): "asyncflow.translate.MAX_CONTEXT",
    ("bulk", "the newest {} and says so"): "bulk.services.targets.MAX_INDEXED",
    ("dispatch", "value has at most {} KB"): "common.json_rules.MAX_BYTES/1024",
    ("dispatch", "KB, {} levels"): "common.json_rules.MAX_DEPTH",
    ("dispatch", "levels, {} keys"): "common.json_rules.MAX_KEYS",
    ("dispatch", "and {} items and keys"): "common.json_rules.MAX_MEMBERS",
    ("dispatch", "a batch {} MB"): "common.api.parsers.BATCH_BYTES/1048576",
    ("dispatch", "at most {} errors are named"): "common.json.schema.MAX_ERRORS",
    ("dispatch", "more than {} MiB when"): "common.json.schema.MAX_PATTERN/1048576",
    ("dispatch", "({} MiB in one schema)"): "common.json.schema.MAX_PATTERNS/1048576",
    ("dispatch", "more than {} repetitions"): "common.json.schema.MAX_REPETITIONS",
    ("dispatch", "more than {} steps deep"): "common.json.references.MAX_STEPS",
    ("dispatch", "more than {} subschemas"): "common.json.references.MAX_SUBSCHEMAS",
    ("dispatch", "more than {} dispatches per request"): "common.api.paging.MAX_EXAMINED",
    ("dispatch", "shows at most {} items"): "dispatch.services.preview.MAX_ITEMS",
    ("dispatch", "the first {} members"): "dispatch.services.what_if.MAX_MEMBERS",
    ("flows", "At most {} steps"): "flows.rules.shapes.MAX_STEPS",
    ("flows", "keys, {} items of a step"): "flows.rules.shapes.MAX_ITEMS",
    ("flows", "and {} jobs of a run"): "flows.rules.shapes.MAX_JOBS",
    ("reports", "at most {} groups per bucket"): "reports.rules.tally.MAX_ERRORS",
    ("reports", "more than {} live jobs that failed"): "reports.watches.jobs.MAX_FAILED",
}
# Calls that the platform makes and does not take.
OF_OTHERS = {"POST /index/_bulk"}
# What is stressed and no page says: words that are explained, keys, and what others say.
STRESSED = set(
    "?, Ctrl K, NO, asyncflow, call back, cells, drain, eligible, max_processing_time, "
    "plan versions, pull, rolls, silent, sketches, troubles, your, Grows with the work, "
    "rolls in partitions, Retry N, Jobs fail, Steps to take, additional signature, "
    "signature verification, 中断, 回调, 计划版本, 配额表, 您的, 增加".split(", ")
)


def targets(text: str) -> Iterator[str]:
    known = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    for name in re.findall(r"(?:`|^\$ )make ([\w-]+)", text, re.M):
        if name not in known:
            yield f"make {name}"


def commands(text: str) -> Iterator[str]:
    for line in re.findall(r"manage\.py ([a-z_]+[^`\n|&>]*)", text):
        name, *words = line.split()
        if (of_client := OF_CLIENT / f"{name}.py").exists():
            options = set(re.findall(r'"(--[a-z-]+)"', of_client.read_text()))
        elif name in get_commands():
            options = _options(_command(name).create_parser("manage.py", name))
        else:
            yield line
            continue
        yield from (
            f"{name} {word}"
            for word in (each.partition("=")[0] for each in words)
            if re.fullmatch(r"--[a-z][a-z-]*", word) and word not in options
        )


def _command(name: str) -> BaseCommand:
    app = get_commands()[name]
    return app if isinstance(app, BaseCommand) else load_command_class(app, name)


def _options(parser: argparse.ArgumentParser) -> set[str]:
    """Those of the command and of its subcommands."""
    found = set(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found.update(*map(_options, action.choices.values()))
    return found


def calls(text: str) -> Iterator[str]:
    for method, path in re.findall(r"`(GET|POST|PATCH|PUT|DELETE) (/[^`?\s]*)", text):
        view = _view_of(re.sub(r"\{\w+\}", "1", path).replace("…", ""))
        of = getattr(view, "view_class", None) or getattr(view, "cls", None)
        if view is None or (of is not None and not hasattr(of, method.lower())):
            yield f"{method} {path}"


def _view_of(path: str) -> Callable[..., Any] | None:
    for prefix in ("/api/v1", ""):
        try:
            return resolve(prefix + path).func
        except Resolver404:
            continue
    return None


def names(text: str) -> Iterator[str]:
    """Settings, and other names in capitals."""
    for name in re.findall(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`", text):
        if name not in SOURCE:
            yield name


def links(readme: Path) -> Iterator[str]:
    """Links to no file, or to no heading of it."""
    for link in re.findall(r"\]\((?!http)([^)\s]+)\)", readme.read_text()):
        name, _, anchor = link.partition("#")
        file = readme.parent / name if name else readme
        file = file / "README.md" if file.is_dir() else file
        if not file.exists() or (anchor and anchor not in anchors(file.read_text())):
            yield link


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in headings}


SOURCE = {
    word
    for folder in ("apps", "taskplatform")
    for file in (ROOT / folder).rglob("*.py")
    for word in re.findall(r"\b[A-Z][A-Z0-9_]+\b", file.read_text())
}


@pytest.mark.parametrize("missing", [targets, commands, calls, names])
def test_what_a_readme_names_is_there(
    missing: Callable[[str], Iterator[str]], subtests: pytest.Subtests
) -> None:
    for readme in READMES:
        with subtests.test(readme=str(readme.relative_to(ROOT))):
            assert set(missing(readme.read_text())) - OF_OTHERS == set()


def test_figures_of_readmes_are_those_of_the_code(subtests: pytest.Subtests) -> None:
    for (box, sentence), constant in FIGURES.items():
        with subtests.test(box=box, sentence=sentence):
            name, _, unit = constant.partition("/")
            figure = f"{import_string(f'apps.{name}') // int(unit or 1):,}"
            text = " ".join((ROOT / "apps" / box / "README.md").read_text().split())
            assert sentence.format(figure) in text


def test_events_of_celery_are_off_and_switched_on_as_the_docs_say() -> None:
    said = " ".join((ROOT / "taskplatform/docs/deployment.md").read_text().split())
    assert "Celery's events are off" in said
    [option] = re.findall(r"add `(-\w)` to the commands of the workers", said)
    [found] = [each for each in celery_worker.params if option in each.opts]
    assert (found.name, celery.conf.worker_send_task_events) == ("task_events", False)


def test_links_of_readmes_lead_somewhere(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for readme in [*READMES, ROOT / "CHANGELOG.md"]:
        with subtests.test(readme=str(readme.relative_to(ROOT))):
            assert list(links(readme)) == []
    shown = tmp_path / "README.md"
    shown.write_text("# A tea\n[tea](tea.md) [here](#a-tea) [there](README.md#milk)")
    assert list(links(shown)) == ["tea.md", "README.md#milk"]


def test_pages_and_buttons_are_called_as_in_the_admin(subtests: pytest.Subtests) -> None:
    catalogues = ROOT.glob("taskplatform/**/zh_Hans/LC_MESSAGES/django.po")
    entries = [each for catalogue in catalogues for each in read_po(catalogue).items()]
    english = {message.text.casefold() for message, _ in entries}
    chinese = {text for _, entry in entries for text in entry.translations}
    for readme in READMES:
        known = chinese if readme in IN_CHINESE else english
        with subtests.test(readme=str(readme.relative_to(ROOT))):
            said = {each.rstrip("…") for each in emphasised(readme.read_text())} - STRESSED
            assert {each for each in said if not is_label(each.casefold(), known)} == set()
    assert list(emphasised("A *Pool* `*b*` **of** *new jobs*.\n```\n*c*\n```\n")) == [
        "Pool",
        "new jobs",
    ]


def emphasised(text: str) -> Iterator[str]:
    """What stands between single asterisks, which are for pages, buttons and fields."""
    plain = re.sub(r"^ *```.*?^ *```|`[^`]*`|\*\*[^*]*\*\*", "", text, flags=re.M | re.S)
    # Whole sentences are no names.
    yield from re.findall(r"\*([^*]*[^*.。])\*", plain)


def is_label(said: str, known: set[str]) -> bool:
    """Whether it is a text of the admin, or what one begins with: its number or unit may follow."""
    said = " ".join(said.split())
    return said in known or any(
        re.match(rf"{re.escape(said)}(…| ?[\d{{%(（])", each) for each in known
    )


def test_chinese_and_english_pages_lead_to_each_other(subtests: pytest.Subtests) -> None:
    assert len(IN_CHINESE) == 8
    for chinese in IN_CHINESE:
        english = in_english(chinese)
        with subtests.test(page=str(chinese.relative_to(ROOT))):
            assert f"\n\n[中文]({chinese.name})\n\n" in english.read_text()
            assert f"\n\n[English]({english.name})\n\n" in chinese.read_text()


def in_english(chinese: Path) -> Path:
    return chinese.with_name(chinese.name.replace(".zh.md", ".md"))


def test_chinese_pages_show_the_code_of_the_english_ones(subtests: pytest.Subtests) -> None:
    docs = [path for path in ROOT.glob("taskplatform/docs/*.md") if path not in IN_CHINESE]
    for chinese in IN_CHINESE:
        known = {line for each in [in_english(chinese), *docs] for line in code(each.read_text())}
        shown = list(code(chinese.read_text()))
        with subtests.test(page=str(chinese.relative_to(ROOT))):
            assert [line for line in shown if line not in known] == []
            if in_english(chinese) in docs:
                # READMEs divide what they show among other pages; these are one to one.
                assert shown == list(code(in_english(chinese).read_text()))


def code(text: str) -> Iterator[str]:
    """The lines to type, without comments."""
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```", text, re.M | re.S):
        for line in block.splitlines():
            line = re.sub(r"(^| +)# .*", "", line)
            if line and language != "text" and (language != "console" or line.startswith("$ ")):
                yield line


def test_chinese_readmes_have_chinese_punctuation(subtests: pytest.Subtests) -> None:
    for readme in IN_CHINESE:
        text = re.sub(r"^```.*?^```", "", readme.read_text(), flags=re.M | re.S)
        prose = re.sub(r"`[^`\n]*`|\]\([^)]*\)", "", text)
        with subtests.test(readme=str(readme.relative_to(ROOT))):
            assert re.findall(r"[\u4e00-\u9fff] ?[,;:?!()]|[,;?!()][\u4e00-\u9fff]", prose) == []


def test_first_pages_fit_on_200_lines(subtests: pytest.Subtests) -> None:
    for name in ("README.md", "README.zh.md"):
        with subtests.test(name=name):
            assert len((ROOT / name).read_text().splitlines()) <= 200


def test_what_is_not_there_is_noticed() -> None:
    assert list(targets("run `make tea`")) == ["make tea"]
    assert list(commands("`manage.py brew` and `manage.py audit --hot`")) == ["brew", "audit --hot"]
    assert list(calls("`POST /jobs/hold/` and `POST /teas/`, `PUT /jobs/`")) == [
        "POST /teas/",
        "PUT /jobs/",
    ]
    assert list(names("`SECRET_KEY` and `TEA_POT`")) == ["TEA_POT"]
