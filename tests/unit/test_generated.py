"""Texts that commands print stand in the documentation as they are printed now."""

from __future__ import annotations

import re
from importlib import import_module

import pytest
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command

from apps.common.conf import Conf
from taskplatform.conf import ALL
from taskplatform.environment import BASE_DIR
from tests.generated import texts


def test_documentation_shows_what_the_commands_print(subtests: pytest.Subtests) -> None:
    for file, text in texts():
        with subtests.test(file=str(file.relative_to(BASE_DIR))):
            assert file.read_text() == text, "write it anew: .venv/bin/python -m tests.generated"


def test_each_box_with_tables_draws_them_where_the_page_of_tables_leads(
    subtests: pytest.Subtests,
) -> None:
    page = (BASE_DIR / "taskplatform/docs/data.md").read_text()
    boxes = [each for each in apps.get_app_configs() if each.name.startswith("apps.")]
    for box in (each.label for each in boxes if each.models):
        with subtests.test(box=box):
            if (link := f"](../../apps/{box}/README.md#tables)") in page:
                shown = (BASE_DIR / "apps" / box / "README.md").read_text()
            else:
                shown = page
            assert f"\n<!-- manage.py datamodel {box} -->\n" in shown, link


def test_every_variable_is_declared_once() -> None:
    """So that tests, documentation and example know it."""
    for file in BASE_DIR.glob("apps/*/conf.py"):
        import_module(f"apps.{file.parent.name}.conf")
    names = [name for conf in ALL for name in conf.declared()]

    assert set(Conf.__subclasses__()) == set(ALL)
    assert len(set(names)) == len(names) > 70
    # PATH is that of the system, KEY that of the demo's workers. The client is for other machines.
    own = (each for each in BASE_DIR.glob("taskplatform/**/*.py") if "client" not in each.parts)
    sources = "".join(file.read_text() for file in own)
    assert set(re.findall(r"os\.environ(?:\.get\(|\[)\"(\w+)", sources)) == {"PATH", "KEY"}


def test_lines_of_the_example_are_taken_when_they_are_uncommented(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But the key for secrets, which would be the same for everybody."""
    monkeypatch.syspath_prepend(BASE_DIR / "tests")  # EXTRA_APPS=shop
    lines = dict(re.findall(r"^# ([A-Z_]+)=(.*)", (BASE_DIR / ".env.example").read_text(), re.M))
    settings = {name: each for conf in ALL for name, each in conf.declared().items()}

    assert set(lines) == set(settings)
    for name in set(lines) - {"SECRET_KEY"}:
        with subtests.test(name=name):
            settings[name].given({name: lines[name].replace("shop,billing", "shop")})
    with pytest.raises(ImproperlyConfigured, match="is shorter than 50"):
        settings["SECRET_KEY"].given(lines)


def test_operators_see_what_was_given_without_its_secrets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (
        ("PORT", "8123"),
        ("SECRET_KEY", "geheim" * 10),
        ("SECRET_KEY_FALLBACKS", "geheim1,geheim2"),
        ("DATABASE_URL", "mysql://me:geheim%2F@db.example.org:3306/tasks"),
        ("REDIS_URL", "redis://:geheim@10.0.0.6:6379/0"),
        ("EMAIL_URL", "smtp+tls://ann:geheim@mail.example.org"),
        ("JOURNAL_SINKS", "a=https://u:geheim@h:9200/i?token=geheim b=file:///srv/journal"),
    ):
        monkeypatch.setenv(name, text)
    call_command("settings")

    shown = capsys.readouterr().out
    assert "geheim" not in shown
    assert "`" not in shown
    for line in (
        "PORT=8123  (default: 8000)",
        "WEB_THREADS: 4",
        "SECRET_KEY=••••••",
        "DATABASE_URL=mysql://••••••@db.example.org:3306/tasks",
        "b=file:///srv/journal",
    ):
        assert line in shown
