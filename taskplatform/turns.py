"""Requests that keep a processor busy for long take turns in a thread of their own, so that the
other threads of the web process go on. Those who wait hold no thread; there are few places."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from apps.common.errors import PlatformError, Unavailable
from apps.common.messages import Message


@dataclass
class Turns:
    """One thread, and its places: with the request under way `most` at once, of one address
    `most_of_address`, so that none takes all of them."""

    name: str
    most: int
    most_of_address: int
    # What those read who find no place, and the seconds after which they may find one.
    said: Message
    seconds: int
    # The addresses of those who have a place.
    placed: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.thread = ThreadPoolExecutor(1, thread_name_prefix=self.name)

    def refusal(self, address: str) -> PlatformError | None:
        """Why there is no place for one more request of the address; None when there is."""
        is_full = self.placed.total() >= self.most
        if is_full or self.placed[address] >= self.most_of_address:
            return Unavailable(self.said, retry_after=self.seconds)
        return None

    async def run(self, address: str, work: Callable[..., None], *given: object) -> None:
        """Do the work of the request when it is its turn."""
        self.placed[address] += 1
        try:
            await asyncio.get_running_loop().run_in_executor(self.thread, work, *given)
        finally:
            self.placed[address] -= 1
            # Leaves out the addresses of which nobody waits.
            self.placed += Counter()
