"""What is drawn for the steps of the machine: people, tasks, times and what is changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from hypothesis import strategies as st

from apps.dispatch.models import TASK_MODELS
from tests.integration.dispatch.model import DONE, LOOKBACK

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
USERS = ["uid_a", "uid_b"]
MEMBERS = {"gid_x": {"uid_a", "uid_b"}, "gid_y": {"uid_b"}}
BY_HAND = ["released", "cancelled", "expired"]
HORIZON = LOOKBACK + timedelta(days=1)
EDITS = [
    "status",
    "mode",
    "times",
    "executor",
    "policy",
    "start",
    "end",
    "rule",
    "misfire",
    "delete",
]
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)

some_user = st.sampled_from(USERS)
some_executor = st.sampled_from([*USERS, *MEMBERS])
some_group = st.sampled_from(sorted(MEMBERS))
some_state = st.sampled_from(DONE)
some_result = st.sampled_from([None, {"photos": 1}])
a_number = st.integers(0, 30)
leaps = st.sampled_from(
    [
        timedelta(seconds=0.5),
        timedelta(seconds=59),
        MINUTE,
        MINUTE + timedelta(seconds=1),
        10 * MINUTE,
        30 * MINUTE,
        HOUR,
        6 * HOUR,
        7 * HOUR,
        DAY,
        7 * DAY,
        9 * DAY,
    ]
)
starts = st.sampled_from(
    [
        *[timedelta(0), -MINUTE, -HOUR, -7 * HOUR, -DAY] * 2,
        MINUTE,
        HOUR,
        7 * HOUR,
        -6 * HOUR,
        -7 * DAY,
        -9 * DAY,
    ]
)
lengths = st.sampled_from([None, None, 10 * MINUTE, 8 * HOUR, 8 * DAY])
modes = st.sampled_from(
    [
        ("single", 1),
        ("multi", 1),
        ("multi", 2),
        ("multi", None),
        ("blocking", 1),
        ("blocking", 2),
        ("blocking", 3),
    ]
)
policies = st.fixed_dictionaries(
    {
        "priority": st.sampled_from([0, 0, 1, -1]),
        "lease_seconds": st.sampled_from([60, 600, 86_400]),
        "on_failure": st.sampled_from(["finish", "give_back", "retry_same"]),
        "on_expiry": st.sampled_from(["give_back", "keep"]),
        "max_rounds": st.sampled_from([1, 2, 3]),
    }
)
rhythms = st.sampled_from(
    [
        {"every_minutes": 10},
        {"every_minutes": 420},
        {"every_days": 1, "at": "09:00"},
        {"every_days": 3, "at": "00:30"},
    ]
)
misfires = st.sampled_from([("skip", 10), ("once", 10), ("all", 1), ("all", 3)])


class Plan(NamedTuple):
    """A task to be planned; its start counts from the present."""

    source: str
    executor: str
    start: timedelta
    length: timedelta | None
    fields: dict[str, Any]


@st.composite
def some_plan(draw: Any) -> Plan:
    mode, times = draw(modes)
    fields = {"mode": mode, "dispatch_times": times, **draw(policies)}
    source = draw(st.sampled_from(sorted(TASK_MODELS)))
    if source == "rotate":
        misfire, limit = draw(misfires)
        fields |= {"rule": draw(rhythms), "misfire": misfire, "misfire_limit": limit}
    return Plan(source, draw(some_executor), draw(starts), draw(lengths), fields)


plans = some_plan()
