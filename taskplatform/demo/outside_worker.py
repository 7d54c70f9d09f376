"""A worker on another machine, as `demo --workers` starts it: this file beside sdk.py, no Django.

Its address, name and pool are its arguments; the API key is in the environment as KEY.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taskplatform.sdk import Client, HeldJob, NextStage, Pool, Retry, Worker
else:
    from sdk import Client, NextStage, Pool, Retry, Worker

url, name, pool_type = sys.argv[1:4]
worker = Worker(url, os.environ["KEY"], name=name, threads=4, version="demo")


@worker.handler("demo-thumbnails")
def thumbnail(job: HeldJob) -> Mapping[str, Any]:
    """A quick job; one in ten first attempts fails, as devices do."""
    if job.attempt == 1 and random.random() < 0.1:  # noqa: S311
        raise Retry(0)
    return {"pixels": job.context["width"] ** 2}


@worker.batch("demo-letters", size=50)
def letters(jobs: Sequence[HeldJob]) -> Iterable[Any]:
    """Many jobs at once."""
    return [{"words": len(job.context["text"].split())} for job in jobs]


@worker.handler("demo-films")
def film(job: HeldJob) -> Any:
    """A job of two stages; the second goes on from its checkpoint after a crash."""
    if job.stage == "cut":
        return NextStage("mix", context={**job.context, "cut": True})
    for scene in range(job.saved or 0, job.context["scenes"]):
        time.sleep(0.02)
        job.checkpoint(scene + 1, progress=100 * (scene + 1) / job.context["scenes"])
    return {"seconds": 60 * job.context["scenes"]}


def empty_shelves(stop: threading.Event) -> None:
    """Take items of the pool until none is left, and report them."""
    with Client(url, os.environ["KEY"]) as client:
        pool = Pool(client, pool_type, name)
        while not stop.is_set():
            bucket = pool.assign(20)
            if not bucket.items:
                stop.wait(bucket.retry_after)
                continue
            keys = [item.key for item in bucket.items]
            time.sleep(0.02)
            # The last one is counted again by somebody.
            pool.release(keys[19:])
            pool.done(keys[:19])


stop = threading.Event()
shelves = threading.Thread(target=empty_shelves, args=[stop])
shelves.start()
worker.run()
stop.set()
shelves.join()
