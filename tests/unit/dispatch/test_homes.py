"""Pulls, previews, explanations, lists and states of tasks look at the same facts by the same
rules: each idea has one home, and a second one is a fault."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

APP = Path(__file__).resolve().parents[3] / "apps/dispatch"
# How an idea is written, and the modules that may write it.
HOMES = {
    "whether a user may have it again": (r"(?<!def )\bverdict\(", {"rules/past.py"}),
    "whether its quota is used up": (r">= \w*times\b", {"rules/past.py"}),
    "an occurrence that can be handed out": (
        r"(?<!class )\bCandidate\(",
        {"rules/queue.py", "services/outlook.py"},
    ),
    "how often it was handed out": (r"\bhanded FROM \{table\(Stock\)\} s\b", {"services/past.py"}),
    "how many members have had it": (r"COUNT\(DISTINCT", {"services/past.py"}),
    "the state of a task": (r"\bAvailability\(\w+, ", {"services/availability.py"}),
    "the once tasks in a state": (r"\blife\.OVER: ", {"services/availability.py"}),
    "who pulls": (r"so name a uid_", {"rules/names.py"}),
    "the tasks of a period": (r"end_at__gt=instant\b", {"services/filtered.py"}),
}


def test_each_idea_has_one_home(subtests: pytest.Subtests) -> None:
    texts = {str(path.relative_to(APP)): path.read_text() for path in APP.rglob("*.py")}
    for idea, (written, homes) in HOMES.items():
        with subtests.test(idea):
            assert {name for name, text in texts.items() if re.search(written, text)} == homes
