"""The people of the demo's company and the tasks of one round of inspections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

# Who plans the demo's tasks; they are known by it.
ACTOR = "demo"

ANN = "uid_ann"
PHOTOS = "gid_photo_check"
STOCK = "gid_stock_count"
PRICES = "gid_price_check"

PEOPLE: Mapping[str, str] = {
    ANN: "Ann Baker",
    "uid_ben": "Ben Carter",
    "uid_chloe": "Chloé Martin",
    "uid_diego": "Diego Torres",
    "uid_emma": "Emma Schmidt",
    "uid_farid": "Farid Haddad",
    "uid_grace": "Grace Okafor",
    "uid_hugo": "Hugo Silva",
    "uid_ines": "Inês Costa",
    "uid_jun": "田中純 Jun Tanaka",
    "uid_kofi": "Kofi Mensah",
    "uid_lina": "李娜 Li Na",
    "uid_marco": "Marco Rossi",
    "uid_nadia": "Nadia Petrova",
    "uid_omar": "Omar Aziz",
    "uid_priya": "Priya Nair",
    "uid_quinn": "Quinn Murphy",
    "uid_rosa": "Rosa Jiménez",
    "uid_sven": "Sven Larsson",
    "uid_wei": "王伟 Wang Wei",
}


@dataclass(frozen=True)
class Team:
    """A group of the company; Grace, Hugo and Nadia belong to two."""

    name: str
    title: str
    members: Sequence[str]


_NAMES = list(PEOPLE)
TEAMS = (
    Team(PHOTOS, "Photo check", _NAMES[0:8]),
    Team(STOCK, "Stock count", _NAMES[6:14]),
    Team(PRICES, "Price check", _NAMES[13:20]),
)

SHOPS = (
    "Nanjing Road",
    "Harbour Street",
    "王府井店",
    "Gran Vía",
    "Marktplatz",
    "新宿店",
    "Oxford Street",
    "Fifth Avenue",
)


def shop_of(round_number: int) -> str:
    """The shop that a round (from 1) inspects; from the second visit on with its number."""
    visit, position = divmod(round_number - 1, len(SHOPS))
    return SHOPS[position] if visit == 0 else f"{SHOPS[position]} {visit + 1}"


def _schema(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """The params of an inspection: shop and aisle, what is special to it, and a hint."""
    return {
        "type": "object",
        "properties": {
            "shop": {"type": "string", "title": "Shop", "minLength": 1, "maxLength": 80},
            "aisle": {"type": "integer", "title": "Aisle", "minimum": 0, "maximum": 60},
            **properties,
            "hint": {"type": "string", "title": "Hint", "maxLength": 200},
        },
        "required": ["shop", *properties],
        "additionalProperties": False,
    }


TEMPLATES: Mapping[str, dict[str, Any]] = {
    "photo-check": _schema(
        photos={"type": "integer", "title": "Photos", "minimum": 1, "maximum": 20},
        angle={"type": "string", "title": "Angle", "enum": ["front", "left", "right", "above"]},
    ),
    "stock-count": _schema(
        unit={"type": "string", "title": "Unit", "enum": ["piece", "box", "pallet"]},
        count_twice={"type": "boolean", "title": "Count twice"},
    ),
    "price-check": _schema(
        products={"type": "integer", "title": "Products", "minimum": 1, "maximum": 500},
        valid_from={"type": "string", "title": "Prices valid from", "format": "date"},
    ),
}


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """A task of each round.

    `quota` None means every member once. `mishaps` are what the first hand-outs of a simulated
    run end as; they are few enough for the others to meet the quota.
    """

    title: str
    executor: str
    template: str
    params: Mapping[str, Any]
    mode: str = "multi"
    quota: int | None = 1
    priority: int = 0
    on_failure: str = "finish"
    mishaps: Sequence[str] = field(default=())


ROUND = (
    Inspection(
        title="Entrance photo",
        executor=ANN,
        template="photo-check",
        params={"aisle": 0, "photos": 1, "angle": "front", "hint": "Before the doors open"},
        mode="single",
        priority=60,
    ),
    Inspection(
        title="Fridge photos",
        executor=PHOTOS,
        template="photo-check",
        params={"aisle": 3, "photos": 4, "angle": "front", "hint": "With the doors closed"},
        quota=5,
        priority=20,
        on_failure="give_back",
        mishaps=("failed", "released"),
    ),
    Inspection(
        title="Window photo",
        executor=PHOTOS,
        template="photo-check",
        params={"photos": 1, "angle": "left", "hint": "Everyone from another side"},
        quota=None,
    ),
    Inspection(
        title="Shelf photos",
        executor=PHOTOS,
        template="photo-check",
        params={"aisle": 7, "photos": 2, "angle": "front", "hint": "One shelf at a time"},
        mode="blocking",
        quota=18,
        priority=-10,
    ),
    Inspection(
        title="Freezer count",
        executor=STOCK,
        template="stock-count",
        params={"aisle": 12, "unit": "box", "count_twice": True, "hint": "Take the gloves"},
        mode="single",
        priority=40,
    ),
    Inspection(
        title="Dairy count",
        executor=STOCK,
        template="stock-count",
        params={"aisle": 3, "unit": "piece", "count_twice": False},
        quota=5,
        priority=20,
        on_failure="retry_same",
        mishaps=("failed", "failed"),
    ),
    Inspection(
        title="Pallet count",
        executor=STOCK,
        template="stock-count",
        params={"unit": "pallet", "count_twice": False, "hint": "Yard and loading bay"},
        mode="blocking",
        quota=20,
        priority=-10,
        mishaps=("failed",),
    ),
    Inspection(
        title="Promotion prices",
        executor=PRICES,
        template="price-check",
        params={"aisle": 1, "products": 25, "valid_from": "2026-01-05"},
        quota=4,
        priority=20,
        on_failure="give_back",
        mishaps=("released", "failed"),
    ),
    Inspection(
        title="Price rules",
        executor=PRICES,
        template="price-check",
        params={"products": 1, "valid_from": "2026-01-05", "hint": "Read, then confirm"},
        quota=None,
        priority=10,
    ),
    Inspection(
        title="Shelf prices",
        executor=PRICES,
        template="price-check",
        params={"aisle": 4, "products": 60, "valid_from": "2026-01-05"},
        mode="blocking",
        quota=14,
    ),
)

# Planned with the round, but due only a day later.
TOMORROW = Inspection(
    title="Full count",
    executor=STOCK,
    template="stock-count",
    params={"unit": "piece", "count_twice": True, "hint": "The whole shop"},
    quota=6,
    priority=30,
)


@dataclass(frozen=True, kw_only=True)
class Rotation(Inspection):
    """An inspection that is due repeatedly; when it is planned, it has been for `since`.

    A rule of days without `at` is due at the time of day of its planning.
    """

    rule: Mapping[str, Any]
    time_zone: str = "UTC"
    since: timedelta
    misfire: str = "skip"
    misfire_limit: int = 10
    status: str = "active"


ROTATIONS = (
    Rotation(
        title="Till check",
        executor=PRICES,
        template="price-check",
        params={"shop": "Every shop", "products": 5, "valid_from": "2026-01-05"},
        mode="multi",
        quota=3,
        priority=15,
        on_failure="give_back",
        mishaps=("released",),
        rule={"every_minutes": 60},
        since=timedelta(hours=2),
        misfire="all",
        misfire_limit=2,
    ),
    Rotation(
        title="Fridge temperature",
        executor=PHOTOS,
        template="photo-check",
        params={"shop": "Every shop", "photos": 1, "angle": "front", "hint": "The display"},
        mode="single",
        priority=30,
        rule={"cron": "0 */2 * * *"},
        since=timedelta(hours=4),
        misfire="once",
    ),
    Rotation(
        title="Opening photo",
        executor=ANN,
        template="photo-check",
        params={"shop": "Nanjing Road", "photos": 1, "angle": "front"},
        mode="single",
        priority=50,
        rule={"every_days": 2},
        time_zone="Asia/Shanghai",
        since=timedelta(days=2),
    ),
    Rotation(
        title="Night count",
        executor=STOCK,
        template="stock-count",
        params={"shop": "Harbour Street", "unit": "piece", "count_twice": True},
        quota=2,
        rule={"every_days": 1, "at": "02:00"},
        time_zone="Europe/Berlin",
        since=timedelta(0),
        status="paused",
    ),
)
# The paused rotation: the demo shows what resuming it would change.
NIGHT = ROTATIONS[-1]
