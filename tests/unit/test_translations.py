"""Everything that pages and forms say is there in Simplified Chinese.

New texts come into the catalogue by
`manage.py makemessages -l zh_Hans --no-location --no-wrap --no-obsolete -i "tests/*" -i "var/*"`,
and into use by `manage.py compilemessages -l zh_Hans -i .venv`. What installed packages do not
translate is written into the catalogues of `package_locale` by hand. These tests say what is
missing; all words for one thing are in the catalogue: task 任务, dispatch 派发, quota 配额.
"""

from __future__ import annotations

import gettext
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.template import Context, Template
from django.test import RequestFactory
from django.utils import translation
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.translation import trans_real

from apps.alerts.models import AlertRule
from apps.common.admin.display import beside, filled, labelled, translate
from apps.common.messages import Message as _
from apps.jobs.handlers import registry
from apps.jobs.models import JobType
from apps.jobs.rules import failures
from apps.journal.admin.words import MESSAGES, reason_of
from taskplatform import roles
from tests.catalogue import (
    Marks,
    Message,
    marks_in,
    own_words,
    placeholders,
    read_po,
    unmarked_words,
)

ROOT = Path(__file__).resolve().parents[2]
OWN, OF_PACKAGES = (
    Path(folder) / "zh_Hans/LC_MESSAGES/django.po" for folder in settings.LOCALE_PATHS
)
OF_SCRIPTS = OF_PACKAGES.with_name("djangojs.po")
# What other projects install has a catalogue of its own.
CLIENT = ROOT / "taskplatform/client"
OF_CLIENT = CLIENT / "outbox/locale/zh_Hans/LC_MESSAGES/django.po"
CATALOGUES = pytest.mark.parametrize(
    "path",
    [OWN, OF_PACKAGES, OF_SCRIPTS, OF_CLIENT],
    ids=["own", "of packages", "of scripts", "of the client"],
)
# Those of the installed ones that draw pages here and are not translated as a whole.
PACKAGES = ("unfold", "axes")

# Here sentences are said to programs, in the log or at a terminal, never on a page: the reports and
# the pages of errors have words of their own.
FOR_PROGRAMS = (
    "apps/*/api/*.py",
    "apps/asyncflow/*.py",
    "apps/common/arguments.py",
    "apps/common/checks.py",
    "apps/*/management/commands/*.py",
    "apps/access/authentication.py",
    "apps/access/permissions.py",
    "apps/access/rules/keys.py",
    "apps/access/schema.py",
    "apps/*/conf.py",
    "apps/jobs/rules/former.py",
    "apps/jobs/testing.py",
    "apps/common/api/filter_fields.py",
    "apps/common/api/middleware.py",
    "apps/common/api/paging.py",
    "apps/common/api/parsers.py",
    "apps/common/partitions.py",
    "apps/common/api/problems.py",
    "apps/common/rolling.py",
    "apps/common/api/schema.py",
    "apps/common/api/serializer_fields.py",
    "apps/common/api/serializers.py",
    "apps/dispatch/services/filtered.py",
    "apps/dispatch/services/pull.py",
    "apps/jobs/handlers/checks.py",
    "apps/jobs/handlers/registry.py",
    "apps/jobs/runner/*.py",
    "apps/jobs/services/job_filters.py",
    "apps/jobs/services/leases.py",
    "apps/jobs/rules/report.py",
    "apps/jobs/tasks_backend.py",
    "apps/journal/checks.py",
    "apps/journal/sinks/*.py",
    "apps/reports/services/summary.py",
)


def own_files(*folders: Path) -> list[Path]:
    folders = folders or (ROOT / "apps", ROOT / "taskplatform", ROOT / "templates")
    found = [path for folder in folders for path in folder.rglob("*")]
    return [p for p in found if p.suffix in (".py", ".html") and "migrations" not in p.parts]


def package_files() -> Iterator[Path]:
    """The sources of the installed apps of these packages, without apps within that are not."""
    configs = [c for c in apps.get_app_configs() if c.name.partition(".")[0] in PACKAGES]
    for config in configs:
        folder = Path(config.path)
        for path in folder.rglob("*"):
            inner = path.relative_to(folder).parts
            if path.suffix in (".py", ".html") and not {"contrib", "migrations"} & {*inner}:
                yield path


@pytest.fixture(scope="module")
def own() -> Marks:
    return marks_in(path for path in own_files() if CLIENT not in path.parents)


@pytest.fixture(scope="module")
def of_packages() -> Marks:
    return marks_in(package_files())


def is_translated(message: Message) -> bool:
    """Whether the platform, as it is put together, finds it; not Django's way back to English."""
    catalogue: Any = trans_real.translation("zh-hans")._catalog  # type: ignore[attr-defined]
    try:
        return bool(catalogue[(message.key, 0)] if message.plural else catalogue[message.key])
    except KeyError:
        return False


# --- the catalogues -------------------------------------------------------------------------------
def test_every_mark_is_a_literal(own: Marks) -> None:
    assert own.not_literal == []


def test_every_text_of_ours_is_in_the_catalogue_and_nothing_else_is(own: Marks) -> None:
    for marks, catalogue in ((own, OWN), (marks_in(own_files(CLIENT)), OF_CLIENT)):
        entries = read_po(catalogue)
        assert sorted(marks.messages.keys() - entries.keys()) == []
        assert sorted(entries.keys() - marks.messages.keys()) == []


# Words that pages no longer say, one word for each thing; and where they are meant otherwise.
OLD = re.compile(
    r"(?<![\w({.])(attempts?|executors?|rotations?|archived?|rounds?|gone|away|lost|stocks?)\b(?![)}])",
    re.I,
)
OLD_CHINESE = re.compile("执行者|归档|周期任务|轮次")
# Stored texts that are found again by their templates, a column of a file, and the word as such.
STILL = {
    *(template for template in MESSAGES.values()),
    "Too many attempts",
    "Nothing is lost. Try again in some seconds.",
    "What it referred to is gone.",
    "A row with an id changes that task, as it stands in an export; a row without one is a new "
    "task, which needs a title and an executor.",
}
# A task, a row or a cause that is gone, and what is taken away.
OTHERWISE = re.compile(
    r"(task|tasks|rows|cause)( \S+)? (is|are) gone|are then gone|tak(e|en) away|is gone from", re.I
)


def test_old_words_are_gone_in_both_languages() -> None:
    entries = read_po(OWN)
    said = [text for each in entries for text in each[:2] if each.text not in STILL]
    assert [text for text in said if OLD.search(OTHERWISE.sub("", text))] == []
    chinese = [form for each in entries.values() for form in each.translations]
    assert [text for text in chinese if OLD_CHINESE.search(text)] == []


@CATALOGUES
def test_every_entry_is_translated_by_a_person(path: Path) -> None:
    entries = read_po(path)

    assert [m for m, entry in entries.items() if not all(entry.translations)] == []
    assert [m for m, entry in entries.items() if entry.is_fuzzy] == []


@CATALOGUES
def test_translation_has_the_placeholders_and_the_edges_of_the_text(path: Path) -> None:
    def edges(text: str) -> tuple[str, ...]:
        return (text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :])

    wrong = [
        (message.text, said)
        for message, entry in read_po(path).items()
        for said in entry.translations
        if message.placeholders != placeholders(said) or edges(message.text) != edges(said)
    ]

    assert wrong == []


@CATALOGUES
def test_translation_is_chinese_with_chinese_punctuation(path: Path) -> None:
    said = [text for entry in read_po(path).values() for text in entry.translations]
    names = {"HTTP Accept"}

    # Some only put their parts in order.
    worded = [t for t in said if re.search(r"[^\W\d_]", own_words(t))]
    assert [t for t in worded if not re.search(r"[\u4e00-\u9fff]", t) and t not in names] == []
    assert [
        t for t in said if re.search(r"[\u4e00-\u9fff][,;:?!.]|[,;:?!][\u4e00-\u9fff]", t)
    ] == []


# What Django puts into its texts where we have Chinese words.
NOUNS = r"%(?:\((?:verbose_name(?:_plural)?|model_name|field_label|items)\))?s"


def test_words_are_not_joined_to_chinese_ones_by_a_blank() -> None:
    texts = [
        *("Add %s", "Change %s", "View %s", "Select %s", "Select %s to change"),
        "Delete selected %(verbose_name_plural)s",
        "Add another %(verbose_name)s",
        "%(model_name)s with this %(field_label)s already exists.",
        "Successfully deleted %(count)d %(items)s.",
    ]
    with translation.override("zh-hans"):
        said = [translation.gettext(text) for text in texts]
        assert beside(translation.gettext("Delete"), str(User._meta.verbose_name)) == "删除账号"
        assert beside(translation.gettext("Pause"), "mail") == "暂停 mail"
        assert beside("只剩一个。", "请选择其他类型。") == "只剩一个。请选择其他类型。"
        text = "把 {what} 改为 {new}"
        assert filled(text, what="作业 <b>", new="忙") == "把作业 &lt;b&gt; 改为忙"
        assert filled(text, what=format_html("<b>{}</b>", "作业"), new=5) == "把<b>作业</b>改为 5"
        assert labelled("状态", "失败") == "状态：失败"
        assert Template("{% load sentences %}一。{% gap %}二。").render(Context()) == "一。二。"
    joined = rf"[\u4e00-\u9fff] {NOUNS}|{NOUNS} [\u4e00-\u9fff]"
    assert [each for each in said if re.search(joined, each)] == []
    # Two that a template puts side by side.
    templates = [text.read_text() for text in (ROOT / "templates").rglob("*.html")]
    assert not any(
        re.search(r"%\} \{\{ *opts\.verbose|_plural *\}\} \{% *trans", text) for text in templates
    )


@CATALOGUES
def test_compiled_catalogue_says_what_its_source_says(path: Path) -> None:
    with path.with_suffix(".mo").open("rb") as file:
        compiled: Any = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    expected: dict[Any, str] = {}
    for message, entry in read_po(path).items():
        for number, said in enumerate(entry.translations):
            expected[(message.key, number) if message.plural else message.key] = said

    assert {key: said for key, said in compiled.items() if key} == expected


def test_every_text_of_the_packages_is_translated(of_packages: Marks) -> None:
    assert len(of_packages.messages) > 100
    assert [message for message in of_packages.messages if not is_translated(message)] == []


def test_every_text_of_the_scripts_is_translated() -> None:
    folder = Path(apps.get_app_config("admin").path) / "static"
    scripts = [path for path in folder.rglob("*.js") if "vendor" not in path.parts]
    asked = marks_in(scripts).messages
    with translation.override("zh-hans"):
        script = admin.site.i18n_javascript(RequestFactory().get("/")).content.decode()
    sent = re.search(r"newcatalog = (\{.*?\n  \});", script, re.DOTALL)
    assert sent is not None
    said = json.loads(sent[1])

    assert len(asked) > 30
    assert [message for message in asked if not said.get(message.key)] == []


# --- texts that nobody marked ---------------------------------------------------------------------
def shown_models() -> list[Any]:
    """Our models that have a page, or a place on one."""
    admins = admin.site._registry.items()
    shown = [model for model, _ in admins] + [i.model for _, own in admins for i in own.inlines]
    return [model for model in shown if model.__module__.startswith("apps.")]


def test_models_fields_and_choices_are_marked() -> None:
    unmarked = []
    for model in shown_models():
        meta = model._meta
        names = {"name": meta.verbose_name, "plural": meta.verbose_name_plural}
        for field in meta.local_fields:
            if field.editable and not field.primary_key:
                names[field.name] = field.verbose_name
            names |= {f"{field.name} {value}": label for value, label in field.choices or ()}
            names |= {f"help of {field.name}": field.help_text} if field.help_text else {}
        unmarked += [f"{meta.label} {n}" for n, text in names.items() if not _is_marked(text)]

    assert unmarked == []


def _is_marked(text: object) -> bool:
    # An enumeration keeps its choices as text, which follows the language as well.
    with translation.override("en"):
        english = str(text)
    with translation.override("zh-hans"):
        return isinstance(text, Promise) or str(text) != english


def test_templates_mark_every_word_they_show() -> None:
    unmarked = {
        str(path.relative_to(ROOT)): words
        for path in own_files()
        if path.suffix == ".html" and (words := unmarked_words(path.read_text()))
    }

    assert unmarked == {}


def test_sentences_that_a_page_can_say_are_marked(own: Marks) -> None:
    said = {
        path.relative_to(ROOT): sentences
        for path, sentences in own.unmarked.items()
        if sentences and path.is_relative_to(ROOT / "apps")
    }
    for_programs = {rule: [path for path in said if path.match(rule)] for rule in FOR_PROGRAMS}

    assert [rule for rule, paths in for_programs.items() if not paths] == []
    known = {path for paths in for_programs.values() for path in paths}
    assert {path: texts for path, texts in said.items() if path not in known} == {}


# --- what comes with the platform and is stored in English ----------------------------------------
# They say in jobs and deliveries why an attempt failed.
STORED = (
    *("apps/alerts/handlers.py", "apps/bulk/handlers.py", "apps/alerts/services/waiting.py"),
    *(
        "apps/jobs/handlers/*.py",
        "apps/jobs/rules/failures.py",
        "apps/jobs/rules/reasons.py",
        "apps/alerts/services/calling.py",
        "apps/alerts/services/sending.py",
    ),
)


def built_in() -> Iterator[tuple[str, Callable[[], str]]]:
    """The name of each text, and the text as a page shows it."""
    for kind, label in AlertRule.KINDS:
        yield f"rule {kind}", lambda label=label: str(label)
    for name in roles.ROLES:
        yield f"role {name}", lambda name=name: str(Group(name=name))
        yield f"role {name} can", lambda name=name: str(roles.DESCRIPTIONS[name])
    for each in registry.known.handlers.values():
        if each.location.startswith("apps.") and not each.of_many:
            kind = JobType(name=each.name, title=each.settings["title"])
            yield f"title of {each.name}", lambda kind=kind: kind.shown_title
            yield f"{each.name} does", lambda each=each: translate(each.about)
    for template in MESSAGES.values():
        text = re.sub(r"\{\w+\}", "7", template)
        yield template, lambda text=text: reason_of(text)


def test_what_comes_with_the_platform_is_chinese(subtests: pytest.Subtests) -> None:
    texts = dict(built_in())
    assert len(texts) > 60
    for name, shown in texts.items():
        with subtests.test(name), translation.override("zh-hans"):
            assert re.search(r"[\u4e00-\u9fff]", shown())


def test_stored_messages_are_found_again_by_their_templates() -> None:
    files = [path for rule in STORED for path in ROOT.glob(rule)]
    marked = {message.text for message in marks_in(files).messages}
    abouts = {each.about for each in registry.known.handlers.values()}

    assert sorted(marked - abouts - {*MESSAGES.values()}) == []
    made = _(failures.NOT_ALLOWED, host="a.b", port=81, setting="ALERT_HOSTS", hosts="{c}, %d\n")
    with translation.override("zh-hans"):
        assert reason_of(str(made)) == translate(made) != made
        assert reason_of(f"{made} And more") == f"{made} And more"


# --- the reading of sources -----------------------------------------------------------------------


def test_unmarked_words_of_a_template_are_found(subtests: pytest.Subtests) -> None:
    for template, words in (
        ("<p>Hello {{ name }}</p>", ["Hello 0"]),
        ('<a title="Go">{% translate "on" %}</a>', ["Go"]),
        ('<a class="{% if x %}big{% endif %}" href="/x">→ {{ n }}</a>', []),
        ("{% blocktranslate %}Hello{% endblocktranslate %}{# Hello #}", []),
        ("{% comment %}Hello{% endcomment %}<style>p { color: red }</style>", []),
    ):
        with subtests.test(template=template):
            assert unmarked_words(template) == words
