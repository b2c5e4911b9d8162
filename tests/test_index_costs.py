"""The cost that is kept with a response is that of the prices in use, through all that changes either."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.builders import Home, Log, database_of, session_id, text
from transcripts import Index
from transcripts.index.prices import KINDS

FROZEN = Path(__file__).parent / "databases" / "0003.db"
MODEL = "claude-opus-4-5"


def filled(home: Home) -> None:
    log = Log()
    log.user("what does it cost?")
    log.assistant([text("A little.")], id="one", requestId="one", tokens=7, model=MODEL)
    log.assistant([text("Not known.")], id="two", requestId="two", tokens=8, model="a-model-of-no-one")
    home.write(log)


def mine(folder: Path, *models: str, price: float) -> Path:
    """A table in which all that these models do has one price."""
    path = folder / "mine.json"
    path.write_text(json.dumps({"date": "2026-01-01", "prices": [{"models": models, **dict.fromkeys(KINDS, price)}]}))
    return path


def by_hand(connection: Any) -> list[tuple[str, float | None]]:
    """The cost of each response, put together in Python from the tables."""
    prices = connection.execute("SELECT * FROM prices").fetchall()
    found = []
    for response in connection.execute("SELECT * FROM responses ORDER BY response").fetchall():
        tokens = [response[f"{kind}_tokens"] for kind in KINDS]
        fitting = [
            price
            for price in prices
            if (price["model"], price["speed"]) == (response["model"], response["speed"] or "standard")
            and price["starts_at"] <= (response["timestamp"] or 0) < price["ends_at"]
            and price["prompt_above"] < sum(tokens) - response["output_tokens"] <= price["prompt_up_to"]
            and response["service_tier"] in (None, "standard")
        ]
        assert len(fitting) <= 1
        cost = None
        if fitting:
            cost = sum(count * fitting[0][kind] for count, kind in zip(tokens, KINDS, strict=True))
            cost = pytest.approx(cost + response["web_searches"] * fitting[0]["web_search"])
        found.append((response["response"], cost))
    return found


def costs(path: Path) -> list[float | None]:
    """The costs that are kept, which are also those by hand."""
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    kept = [tuple(row) for row in connection.execute("SELECT response, cost FROM responses ORDER BY response")]
    assert kept == by_hand(connection)
    connection.close()
    return sorted((cost for _response, cost in kept), key=str)


def test_a_response_gets_its_cost_when_it_is_imported(home: Home) -> None:
    filled(home)
    with home.open() as index:
        index.sync([home.projects])
    one, none = costs(home.db)
    assert one and none is None


def test_other_prices_make_other_costs_at_once(home: Home, tmp_path: Path) -> None:
    filled(home)
    with home.open() as index:
        index.sync([home.projects])
        before = costs(home.db)
        index.stats(prices_from=mine(tmp_path, MODEL, "a-model-of-no-one", price=2))
        assert len(costs(home.db)) == 2 and None not in costs(home.db)
        assert index.damage() == []  # what it compares with has the same prices
        log = Log(session_id(2), first=11)
        log.user("and now?")
        log.assistant([text("The new price.")], id="three", requestId="three", tokens=9, model=MODEL)
        home.write(log)
        index.sync([home.projects])
        assert len(costs(home.db)) == 3
        index.stats(prices_from="shipped")
        assert set(before) < set(costs(home.db))


def test_a_wrong_cost_is_damage(home: Home) -> None:
    filled(home)
    with home.open() as index:
        index.sync([home.projects])
        with database_of(index).write() as connection:
            connection.exec_driver_sql("UPDATE responses SET cost = 1 WHERE cost IS NULL")
        assert [problem.reason.partition(":")[0].split()[1] for problem in index.damage()] == ["responses,"]


@pytest.mark.parametrize("prices", ["shipped", "mine"])
def test_an_older_database_gets_its_costs_with_the_upgrade(home: Home, tmp_path: Path, prices: str) -> None:
    home.db.parent.mkdir()
    shutil.copyfile(FROZEN, home.db)
    if prices == "mine":
        connection = sqlite3.connect(home.db)
        model = connection.execute("SELECT min(model) FROM responses WHERE model LIKE 'claude%'").fetchone()[0]
        connection.execute("DELETE FROM prices")
        connection.execute("INSERT INTO prices VALUES (?, 'standard', 0, -1, 1e15, 1e15, 5, 5, 5, 5, 5, 5)", (model,))
        connection.execute("""UPDATE meta SET value = json_set(value, '$.source', '/mine.json') WHERE key = 'prices'""")
        connection.commit()
        connection.close()
    Index.open(home.db, fresh=False).close()
    assert any(cost is not None for cost in costs(home.db))
