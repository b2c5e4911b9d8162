"""The views for analytics: names that a person would guess, in SQL that SQLite, PostgreSQL and DuckDB all read.

Invariants:
- No view counts a token, a tool call, a prompt or an error twice, however many files hold it. A response belongs to the session
  that had it first, a sub-agent's to the session that started it.
- A name that ends in `_at` is milliseconds since 1970 UTC; beside it stands the same as ISO text in UTC (`_iso`), where that
  is of use, and the `day` in the zone that `meta` names. Durations are milliseconds, `cost_usd` is NULL without a price.
- No function is used that one of the three does not have, so times become texts by arithmetic.
- They are made anew with every upgrade (upgrade.py): who changes one raises the revision.
"""

from __future__ import annotations

from sqlalchemy import Connection

_DAY = 86_400_000
_LONG = 9_000_000_000_000_000  # more than any duration
_PARTS = 31  # as many as there are numbers
_ZONE = "(SELECT value FROM meta WHERE key = 'zone')"


def _two(number: str) -> str:
    """A whole number below 100 as two digits."""
    return f"substr(CAST(CAST(100 + {number} AS BIGINT) AS TEXT), 2)"


def _day_in(moment: str, span: str = "z") -> str:
    """The local day of a moment that lies in a span of zone_offsets."""
    since = f"({moment} + {span}.utc_offset - {span}.month_starts_at)"
    return f"{span}.month || '-' || {_two(f'1 + ({since} - {since} % {_DAY}) / {_DAY}')}"


def _looked_up(text: str, moment: str, zone: str) -> str:
    return (
        f"(SELECT {text} FROM zone_offsets AS z WHERE z.zone = {zone} AND z.starts_at <= {moment} AND {moment} < z.ends_at"
        " ORDER BY z.starts_at DESC LIMIT 1)"
    )


def _day(moment: str) -> str:
    """The local day of any moment; NULL for one that has none."""
    return _looked_up(_day_in(moment), moment, _ZONE)


def _iso(moment: str) -> str:
    """A moment as ISO text in UTC, to the second."""
    parts = ((_DAY, 3_600_000), (3_600_000, 60_000), (60_000, 1000))
    clock = " || ':' || ".join(_two(f"({moment} % {whole} - {moment} % {part}) / {part}") for whole, part in parts)
    return _looked_up(f"{_day_in(moment)} || 'T' || {clock} || 'Z'", moment, "'UTC'")


_PROMPT = "(r.input_tokens + r.cache_read_tokens + r.cache_write_5m_tokens + r.cache_write_1h_tokens)"
_COUNTED = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
_TOTAL = " + ".join(f"{{row}}.{name}_tokens" for name in _COUNTED)


def _sums(extra: str = "") -> str:
    """What is told of a number of responses `r`; a sum of which no price is known is NULL."""
    tokens = ", ".join(f"CAST(sum(r.{name}_tokens) AS BIGINT) AS {name}_tokens" for name in (*_COUNTED, "thinking"))
    unpriced = f"sum(CASE WHEN r.cost IS NULL THEN {_PROMPT} + r.output_tokens END)"
    return f"""count(*) AS responses, {tokens},
      CAST(sum(r.web_searches) AS BIGINT) AS web_searches, count(CASE WHEN r.is_partial THEN 1 END) AS partial_responses,
      sum(r.cost) / 1000000.0 AS cost_usd, CAST(coalesce({unpriced}, 0) AS BIGINT) AS unpriced_tokens{extra}"""


_SUMMED = ", ".join(
    f"CAST(sum(p.{name}) AS BIGINT) AS {name}" if name != "cost_usd" else "sum(p.cost_usd) AS cost_usd"
    for name in (
        "responses", *(f"{name}_tokens" for name in (*_COUNTED, "thinking")), "web_searches", "partial_responses", "cost_usd",
        "unpriced_tokens",
    )
)  # fmt: skip
"""What is told of parts `p`, of which each has the columns of `_sums`, together."""


def _told(row: str) -> str:
    """The columns of `_sums` with the total, as the views tell them; zeros where there is no row."""
    tokens = ", ".join(f"coalesce({row}.{name}_tokens, 0) AS {name}_tokens" for name in _COUNTED)
    return f"""coalesce({row}.responses, 0) AS responses, {tokens}, {row}.thinking_tokens,
      coalesce({_TOTAL.format(row=row)}, 0) AS total_tokens, coalesce({row}.web_searches, 0) AS web_searches,
      coalesce({row}.partial_responses, 0) AS partial_responses,
      CASE WHEN {row}.responses IS NULL THEN 0.0 ELSE {row}.cost_usd END AS cost_usd,
      coalesce({row}.unpriced_tokens, 0) AS unpriced_tokens"""


def _project(files: str) -> str:
    """The path of the project that a file belongs to."""
    return f"""coalesce((
        SELECT min(j.path) FROM files AS m JOIN sessions AS s ON s.file = m.id JOIN projects AS j ON j.id = s.project
        WHERE m.session_id = {files}.session_id AND m.kind = 'main'
          AND m.project_key = {files}.project_key AND m.source = {files}.source
      ), {files}.project_key)"""


def _calls_in(name: str, low: str, high: str) -> str:
    """How many calls of a tool took from `low` to less than `high`."""
    return f"""(SELECT count(*) FROM tool_calls AS c
            WHERE c.is_copy = FALSE AND c.name = {name} AND c.duration >= {low} AND c.duration < {high})"""


_WHERE = f"f.session_id, f.agent_id, {_project('f')} AS project, f.project_key, f.source"
_FIRST = "f.session_id, f.path, f.version, f.source"  # of equal rows in several files the one that is told

VIEWS: dict[str, tuple[str, str]] = {
    "v_responses": (
        "One row a reply of a model: its tokens, its cost, and the session that it belongs to.",
        f"""
    SELECT r.response, r.timestamp AS responded_at, {_iso("r.timestamp")} AS responded_at_iso,
      {_day("r.timestamp")} AS day,
      r.model, r.speed, r.service_tier, r.input_tokens, r.output_tokens, r.thinking_tokens, r.cache_read_tokens,
      r.cache_write_5m_tokens, r.cache_write_1h_tokens, {_TOTAL.format(row="r")} AS total_tokens, r.web_searches,
      r.is_partial, r.is_sidechain, r.cost / 1000000.0 AS cost_usd,
      {_WHERE}
    FROM responses AS r JOIN files AS f ON f.id = r.owner""",
    ),
    "v_daily_usage": (
        "One row a local day: replies, tokens, cost. The row without a day holds replies without a time.",
        f"""
    -- day by day along the index, which needs no sorting; a day in which the offset changes comes in two parts
    SELECT u.month || '-' || {_two("u.n + 1")} AS day,
      {_told("u")}
    FROM (
      SELECT p.month, p.n, {_SUMMED} FROM (
        SELECT z.month, d.n, {_sums()}
        FROM zone_offsets AS z CROSS JOIN numbers AS d CROSS JOIN responses AS r
        WHERE z.zone = {_ZONE}
          AND z.ends_at > (SELECT min(e.timestamp) FROM responses AS e)
          AND z.starts_at <= (SELECT max(e.timestamp) FROM responses AS e)
          AND r.timestamp >= z.month_starts_at - z.utc_offset + d.n * {_DAY}
          AND r.timestamp < z.month_starts_at - z.utc_offset + (d.n + 1) * {_DAY}
          AND +r.timestamp >= z.starts_at AND +r.timestamp < z.ends_at
        GROUP BY z.starts_at, d.n, z.month
      ) AS p GROUP BY p.month, p.n
      UNION ALL
      SELECT NULL, NULL, {_sums()} FROM responses AS r
      WHERE r.timestamp IS NULL
        OR r.timestamp < (SELECT min(z.starts_at) FROM zone_offsets AS z WHERE z.zone = {_ZONE})
        OR r.timestamp >= (SELECT max(z.ends_at) FROM zone_offsets AS z WHERE z.zone = {_ZONE})
      HAVING count(*) > 0
    ) AS u""",
    ),
    "v_models": (
        "One row a model: replies, tokens, cost, when it was first and last used.",
        f"""
    SELECT u.model, {_told("u")},
      u.first_used_at, {_day("u.first_used_at")} AS first_day, u.last_used_at, {_day("u.last_used_at")} AS last_day
    FROM (
      SELECT r.model, min(r.timestamp) AS first_used_at, max(r.timestamp) AS last_used_at,
      {_sums()}
      FROM responses AS r GROUP BY r.model
    ) AS u""",
    ),
    "v_tool_calls": (
        "One row a call of a tool, with how it ended.",
        f"""
    SELECT t.tool_use_id, t.name, t.target, t.path, t.program, t.called_at, {_iso("t.called_at")} AS called_at_iso,
      {_day("t.called_at")} AS day, t.answered_at, t.duration, t.is_error,
      {_WHERE}, t.call_entry AS entry, t.result_entry
    FROM tool_calls AS t JOIN files AS f ON f.id = t.file
    WHERE NOT t.is_copy AND t.call_entry IS NOT NULL""",
    ),
    "v_tools": (
        "One row a tool: calls, errors, calls without a result, and how long they took (median, 95 of 100, all).",
        f"""
    WITH RECURSIVE n AS (
      SELECT c.name, count(*) AS calls, count(CASE WHEN c.is_error THEN 1 END) AS errors,
        count(CASE WHEN c.is_error IS NULL THEN 1 END) AS unanswered, count(c.duration) AS timed,
        CAST(coalesce(sum(c.duration), 0) AS BIGINT) AS total_duration, max(c.duration) AS longest
      FROM tool_calls AS c WHERE c.is_copy = FALSE AND c.name IS NOT NULL GROUP BY c.name
    ), b(low, high) AS ( -- spans of growing width; calls are counted span by span along the index, which needs no sorting
      SELECT CAST(-{_LONG} AS BIGINT), CAST(0 AS BIGINT)
      UNION ALL
      SELECT b.high, CAST(b.high + 1 + (b.high - b.high % 4) / 4 AS BIGINT) FROM b
      WHERE b.high <= (SELECT max(n.longest) FROM n)
    ), w AS ( -- the span in which the call lies that 50 or 95 of 100 do not exceed, and how many lie before
      SELECT s.name, h.share, s.timed, s.low, s.up_to - s.many AS before,
        CAST(1 + (s.high - s.low - (s.high - s.low) % {_PARTS}) / {_PARTS} AS BIGINT) AS step
      FROM (
        SELECT x.*, sum(x.many) OVER (PARTITION BY x.name ORDER BY x.low) AS up_to
        FROM (
          SELECT n.name, n.timed, b.low, b.high, {_calls_in("n.name", "b.low", "b.high")} AS many
          FROM n JOIN b ON b.low <= n.longest
        ) AS x
      ) AS s JOIN (SELECT 50 AS share UNION ALL SELECT 95) AS h
        ON s.up_to * 100 >= s.timed * h.share AND (s.up_to - s.many) * 100 < s.timed * h.share
    ), q AS ( -- the part of that span
      SELECT s.name, s.share, s.timed, s.low, s.low + s.step AS high, s.before + s.up_to - s.many AS before
      FROM (
        SELECT x.*, sum(x.many) OVER (PARTITION BY x.name, x.share ORDER BY x.low) AS up_to
        FROM (
          SELECT w.name, w.share, w.timed, w.before, w.step, w.low + w.step * k.n AS low,
            {_calls_in("w.name", "w.low + w.step * k.n", "w.low + w.step * (k.n + 1)")} AS many
          FROM w CROSS JOIN numbers AS k
        ) AS x
      ) AS s
      WHERE (s.before + s.up_to) * 100 >= s.timed * s.share AND (s.before + s.up_to - s.many) * 100 < s.timed * s.share
    )
    SELECT n.name, n.calls, n.errors, n.unanswered, min(CASE WHEN x.share = 50 THEN x.duration END) AS median_duration,
      min(CASE WHEN x.share = 95 THEN x.duration END) AS p95_duration, n.total_duration
    FROM n LEFT JOIN ( -- which is looked at call by call
      SELECT q.name, q.share, q.timed, c.duration,
        q.before + row_number() OVER (PARTITION BY q.name, q.share ORDER BY c.duration) AS place
      FROM q JOIN tool_calls AS c
        ON c.is_copy = FALSE AND c.name = q.name AND c.duration >= q.low AND c.duration < q.high
    ) AS x ON x.name = n.name AND x.place * 100 >= x.timed * x.share
    GROUP BY n.name, n.calls, n.errors, n.unanswered, n.total_duration""",
    ),
    "v_files": (
        "One row a file that tools touched: how often it was read, edited and written, and when last.",
        f"""
    SELECT u.path, u.reads, u.edits, u.writes, u.errors, u.last_touched_at, {_iso("u.last_touched_at")} AS last_touched_at_iso
    FROM (
      SELECT t.path, count(CASE WHEN t.name IN ('Read', 'NotebookRead') THEN 1 END) AS reads,
        count(CASE WHEN t.name IN ('Edit', 'MultiEdit', 'NotebookEdit') THEN 1 END) AS edits,
        count(CASE WHEN t.name = 'Write' THEN 1 END) AS writes, count(CASE WHEN t.is_error THEN 1 END) AS errors,
        max(t.called_at) AS last_touched_at
      FROM tool_calls AS t WHERE t.path IS NOT NULL AND NOT t.is_copy GROUP BY t.path
    ) AS u""",
    ),
    "v_commands": (
        "One row a program that the shell was asked for: the first word of the command, calls, errors, how long.",
        f"""
    SELECT u.program, u.calls, u.errors, u.total_duration,
      u.last_called_at, {_iso("u.last_called_at")} AS last_called_at_iso
    FROM (
      SELECT t.program, count(*) AS calls, count(CASE WHEN t.is_error THEN 1 END) AS errors,
        CAST(sum(t.duration) AS BIGINT) AS total_duration, max(t.called_at) AS last_called_at
      FROM tool_calls AS t WHERE NOT t.is_copy AND t.program IS NOT NULL GROUP BY t.program
    ) AS u""",
    ),
    "v_errors": (
        "One row a thing that went wrong: kind tool, api (no reply came), retry (asked again), interruption (by the user).",
        f"""
    SELECT u.kind, u.failed_at, {_iso("u.failed_at")} AS failed_at_iso, {_day("u.failed_at")} AS day,
      u.name, u.detail, u.session_id, u.agent_id, u.project, u.project_key, u.source, u.entry
    FROM (
      SELECT 'tool' AS kind, coalesce(t.answered_at, t.called_at) AS failed_at, t.name, t.target AS detail,
        {_WHERE}, t.result_entry AS entry
      FROM tool_calls AS t JOIN files AS f ON f.id = t.file
      WHERE t.is_error AND NOT t.is_copy AND t.name IS NOT NULL
      UNION ALL
      SELECT e.kind, e.timestamp, NULL, e.detail, {_WHERE}, e.entry
      FROM (
        SELECT x.*, row_number() OVER (
          PARTITION BY x.kind, coalesce(x.timestamp, -x.entry), x.detail ORDER BY {_FIRST}, x."offset"
        ) AS place
        FROM errors AS x JOIN files AS f ON f.id = x.file
      ) AS e JOIN files AS f ON f.id = e.file WHERE e.place = 1
    ) AS u""",
    ),
    "v_compactions": (
        "One row a compaction: why (auto, manual), tokens before and after, how long it took.",
        f"""
    SELECT b.timestamp AS compacted_at, {_iso("b.timestamp")} AS compacted_at_iso, {_day("b.timestamp")} AS day,
      b.trigger, b.pre_tokens, b.post_tokens, b.duration, {_WHERE}, b.entry
    FROM (
      SELECT x.*, e.timestamp, row_number() OVER (
        PARTITION BY coalesce(e.timestamp, -x.entry), x.trigger, x.pre_tokens ORDER BY {_FIRST}, x."offset"
      ) AS place
      FROM boundaries AS x JOIN entries AS e ON e.id = x.entry JOIN files AS f ON f.id = x.file
    ) AS b JOIN files AS f ON f.id = b.file WHERE b.place = 1""",
    ),
    "v_subagents": (
        "One row a sub-agent with a transcript of its own: what it was called for, its replies, tokens and cost.",
        f"""
    SELECT f.session_id, f.agent_id, {_project("f")} AS project, f.source, c.description,
      u.first_responded_at, {_iso("u.first_responded_at")} AS first_responded_at_iso, u.last_responded_at,
      {_told("u")}, f.path, f.state
    FROM files AS f
    LEFT JOIN (
      SELECT o.source, o.path, min(r.timestamp) AS first_responded_at, max(r.timestamp) AS last_responded_at,
      {_sums()}
      FROM responses AS r JOIN files AS o ON o.id = r.owner WHERE o.kind = 'agent' GROUP BY o.source, o.path
    ) AS u ON u.source = f.source AND u.path = f.path
    LEFT JOIN (
      SELECT o.source, o.session_id, t.agent_id, min(t.target) AS description
      FROM tool_calls AS t JOIN files AS o ON o.id = t.file WHERE t.agent_id IS NOT NULL
      GROUP BY o.source, o.session_id, t.agent_id
    ) AS c ON c.source = f.source AND c.session_id = f.session_id AND c.agent_id = f.agent_id
    WHERE f.kind = 'agent' AND f.state <> 'replaced'""",
    ),
    "v_prompts": (
        "One row a prompt that a person typed: its first 1,000 characters.",
        f"""
    SELECT x.timestamp AS prompted_at, {_iso("x.timestamp")} AS prompted_at_iso, {_day("x.timestamp")} AS day,
      x.text, {_WHERE}, x.uuid, x.entry
    FROM (
      SELECT y.*, row_number() OVER (
        PARTITION BY coalesce(y.timestamp, -y.entry), y.text ORDER BY {_FIRST}, y."offset"
      ) AS place
      FROM prompts AS y JOIN files AS f ON f.id = y.file
    ) AS x JOIN files AS f ON f.id = x.file WHERE x.place = 1""",
    ),
    "v_sessions": (
        "One row a session: what it is about, its messages, and the tokens and cost of it and its sub-agents.",
        f"""
    SELECT s.session_id, s.title, s.tag, j.path AS project, s.first_prompt, s.cwd, s.git_branch, s.version,
      s.created_at, {_iso("s.created_at")} AS created_at_iso, {_day("s.created_at")} AS day,
      s.last_activity_at, {_iso("s.last_activity_at")} AS last_activity_at_iso,
      s.message_count, s.prompt_count, s.tool_call_count, s.unanswered_count, s.compaction_count,
      {_told("u")},
      c.cost_usd AS client_cost_usd, c.has_unknown AS client_cost_is_partial, s.state, s.path, s.source, s.file
    FROM (
      SELECT a.*, f.source, f.project_key, f.path, f.state, row_number() OVER (
        PARTITION BY f.source, f.project_key, a.session_id ORDER BY f.path
      ) AS place
      FROM sessions AS a JOIN files AS f ON f.id = a.file
    ) AS s JOIN projects AS j ON j.id = s.project
    LEFT JOIN (
      SELECT o.source, o.project_key, o.session_id,
      {_sums()}
      FROM responses AS r JOIN files AS o ON o.id = r.owner GROUP BY o.source, o.project_key, o.session_id
    ) AS u ON u.source = s.source AND u.project_key = s.project_key AND u.session_id = s.session_id AND s.place = 1
    LEFT JOIN client_costs AS c ON c.file = s.file""",
    ),
}
"""Each view with what its rows are, and its SELECT."""


def create_views(connection: Connection) -> None:
    """Make all views."""
    for name, (about, sql) in VIEWS.items():
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql(f"CREATE VIEW {name} AS\n    -- {about}{sql}")
        else:
            connection.exec_driver_sql(f"CREATE VIEW {name} AS{sql}".replace("%", "%%"))
            connection.exec_driver_sql(f"COMMENT ON VIEW {name} IS '{about}'")


def drop_views(connection: Connection) -> None:
    """Remove the views that there are of these."""
    for name in VIEWS:
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")
