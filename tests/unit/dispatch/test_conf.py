"""Settings of dispatch that contradict each other stop the start."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.dispatch.conf import DispatchConf


@pytest.mark.parametrize("name", ["DISPATCH_RETENTION", "TASK_RETENTION"])
@pytest.mark.parametrize(("kept", "lookback"), [("7d", "7d"), ("8d", "169h"), ("1m", "1h")])
def test_nothing_goes_that_can_be_handed_out(name: str, kept: str, lookback: str) -> None:
    """S0.8: the start stops, and says what to do."""
    with pytest.raises(ImproperlyConfigured, match=f"{name} .* raise the first, lower the second"):
        DispatchConf.from_environment({name: kept, "DISPATCH_LOOKBACK": lookback})


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"DISPATCH_RETENTION": "8d", "TASK_RETENTION": "8d"},
        {"DISPATCH_RETENTION": "0", "TASK_RETENTION": "0", "DISPATCH_LOOKBACK": "365d"},
    ],
)
def test_a_day_longer_than_the_lookback_is_fine(given: dict[str, str]) -> None:
    DispatchConf.from_environment(given)
