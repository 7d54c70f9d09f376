"""How often the web process looks for garbage."""

from __future__ import annotations

import gc


def collect_rarely() -> None:
    """What stands now stays, and a call leaves few cycles behind: collected every 700 objects, as
    Python does by default, they cost an empty answer a seventh of its time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
