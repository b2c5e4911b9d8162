"""What the views know of the user's side: the time zone that days are of, and the prices.

Invariants:
- `meta` names the zone whose spans the views take (`zone`), and where the prices are from (`prices`). The spans of zones that
  were used before stay; UTC is always there.
- Prices that the user gave stay until others are given; shipped ones follow the release.
- Whoever changes the prices makes the costs of all responses anew.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson
from sqlalchemy import Connection, delete, select

from transcripts.index import prices as _prices
from transcripts.index.bulk import insert_rows, upsert_rows
from transcripts.index.costs import price_all
from transcripts.index.database import Database
from transcripts.index.prices import SHIPPED, Prices
from transcripts.index.schema import meta, prices, zone_offsets
from transcripts.index.zones import UTC_ZONE, Zone

_ZONE, _PRICES = "zone", "prices"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a database has: the name of its zone, and where its prices are from (`shipped`, or a path) and of what day."""

    zone: str
    prices: str
    prices_date: str


def begin(connection: Connection) -> None:
    """Give a new or upgraded database what it lacks: UTC, and the prices that this release knows."""
    known = _said(connection)
    if _ZONE not in known:
        _write_zone(connection, UTC_ZONE)
        upsert_rows(connection, meta, [(_ZONE, UTC_ZONE.name)])
    if _source(known) in (None, SHIPPED):
        _write_prices(connection, _prices.shipped())
    else:
        price_all(connection)  # an older revision kept no costs


def settle(database: Database, zone: Zone | None, given: Prices | None) -> None:
    """See to it that the views take this zone and these prices; None leaves what the database has.

    Writes only when something changes. Raises DatabaseBusy.
    """
    with database.read() as connection:
        if _is_settled(connection, zone, given):
            return
    with database.write() as connection:
        begin(connection)
        if zone is not None:
            _write_zone(connection, zone)
            upsert_rows(connection, meta, [(_ZONE, zone.name)])
        if given is not None:
            _write_prices(connection, given)


def told(connection: Connection) -> Settings:
    """What the views of a settled database take."""
    known = _said(connection)
    about = orjson.loads(known[_PRICES])
    return Settings(known[_ZONE], about["source"], about["date"])


def _is_settled(connection: Connection, zone: Zone | None, given: Prices | None) -> bool:
    known = _said(connection)
    if _ZONE not in known or _PRICES not in known:
        return False
    if zone is not None and (known[_ZONE] != zone.name or _spans(connection, zone.name) != zone.rows()):
        return False
    wanted = given or (_prices.shipped() if _source(known) == SHIPPED else None)
    return wanted is None or orjson.loads(known[_PRICES])["digest"] == wanted.digest


def _said(connection: Connection) -> dict[str, str]:
    return dict(connection.execute(select(meta.c.key, meta.c.value).where(meta.c.key.in_((_ZONE, _PRICES)))).all())


def _source(known: dict[str, str]) -> str | None:
    return str(orjson.loads(known[_PRICES])["source"]) if _PRICES in known else None


def _spans(connection: Connection, zone: str) -> list[tuple[str, int, int, int, str, int]]:
    wanted = select(zone_offsets).where(zone_offsets.c.zone == zone).order_by(zone_offsets.c.starts_at)
    return [tuple(row) for row in connection.execute(wanted)]


def _write_zone(connection: Connection, zone: Zone) -> None:
    connection.execute(delete(zone_offsets).where(zone_offsets.c.zone == zone.name))
    insert_rows(connection, zone_offsets, zone.rows())


def _write_prices(connection: Connection, table: Prices) -> None:
    connection.execute(delete(prices))
    insert_rows(connection, prices, table.rows)
    about = orjson.dumps({"source": table.source, "date": table.date, "digest": table.digest}).decode()
    upsert_rows(connection, meta, [(_PRICES, about)])
    price_all(connection)


def copy_prices(connection: Connection, scratch: Connection) -> None:
    """Give another database the prices of this one."""
    scratch.execute(delete(prices))
    insert_rows(scratch, prices, [tuple(row) for row in connection.execute(select(prices))])
