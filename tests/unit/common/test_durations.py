"""Durations as people type and read them."""

from __future__ import annotations

import random

import pytest
from django.core.exceptions import ValidationError
from django.utils import translation

from apps.common.admin.durations import LONGEST, DurationField, written
from apps.common.durations import seconds_of

READ = {
    **{"90": 90, " 90 s ": 90, "1 min 30 s": 90, "1min30s": 90, "1m 30S": 90, "1.5 min": 90},
    **{"2h": 7200, "2 Hours": 7200, "1 d 2 h": 93_600, "1 min 90 s": 150, "0": 0, "0 s": 0},
    **{"1 分 30 秒": 90, "2 小时": 7200, "1 天": 86_400},
}
REFUSED = (
    *("1e9", "-1", "- 1 s", "1 min 30", "h", "2 x", "1,5 h", "nan", "½", "1_000", "0x10"),
    *("1:30", "1 min, 30 s", "9" * 11, "99999999 d", "0.5", "inf"),
)


def test_what_people_type_is_read(subtests: pytest.Subtests) -> None:
    for text, seconds in READ.items():
        with subtests.test(text=text):
            assert DurationField().clean(text) == seconds
    for text in REFUSED:
        with subtests.test(text=text), pytest.raises(ValidationError):
            DurationField().clean(text)
    assert DurationField(required=False).clean(" ") is None
    assert DurationField(is_whole=False).clean("0.5 s") == 0.5


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_what_is_shown_is_read_again_as_the_same(language: str) -> None:
    draw = random.Random(1)
    some = [draw.randrange(10 ** draw.randrange(1, 10)) for _ in range(300)]
    with translation.override(language):
        for seconds in (0, 1, 59, 60, 3600, 86_400, LONGEST, 0.5, 90.25, *some):
            assert seconds_of(written(seconds)) == seconds
            assert not DurationField(is_whole=False).has_changed(seconds, written(seconds))
    assert written(90) == "1 min 30 s"
