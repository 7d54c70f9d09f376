"""The programs of the weekly price round on another machine, as `demo --flow runs` starts them:
this file beside sdk.py, no Django.

Its address, its name, the folder of the photos and what an outage says are its arguments; the API
key is in the environment as KEY.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taskplatform.sdk import Client, HeldJob, Later, Worker
else:
    from sdk import Client, Later, Worker

url, name, folder, outage = sys.argv[1:5]
worker = Worker(url, os.environ["KEY"], name=name, threads=4, version="demo")


@worker.handler("price-read")
def recognise(job: HeldJob) -> Mapping[str, Any]:
    """Read the newest photo of a place; while there is none, look again later."""
    place = job.context["item"]
    try:
        photo = json.loads((Path(folder) / f"{place}.json").read_text())
    except FileNotFoundError:
        raise Later(1.0) from None
    down = Path(folder) / "outage"
    if down.exists() and down.read_text() == place:
        raise RuntimeError(outage)
    time.sleep(0.3)
    if photo["light"] < 0.3:
        return {"place": place, "readable": False}
    return {"place": place, "readable": True, "prices": 20 + len(place)}


@worker.handler("price-sort")
def sort(job: HeldJob) -> Mapping[str, Any]:
    """Tell which photos are too dark, so that the flow can branch."""
    results = job.context["results"]
    too_dark = [each["place"] for each in results if not each["readable"]]
    prices = sum(each.get("prices", 0) for each in results)
    return {"places": too_dark, "dark": bool(too_dark), "prices": prices}


@worker.handler("report-write")
def report(job: HeldJob) -> Mapping[str, Any]:
    """Write the report from the review and all that was read, page by page."""
    with Client(url, os.environ["KEY"]) as client:
        photos = list(client.flow_results(job.context["photos"]))
    return {"shop": job.context["shop"], "photos": len(photos), "reviews": job.context["review"]}


worker.run()
