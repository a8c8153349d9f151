"""The smallest rights with which producers, workers and `app.admin` work on tables that another role made."""

from __future__ import annotations

import re
from typing import Final

#: What a table needs, unless it is named below.
ALL: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")

#: `meta` is changed by migrations alone, and an event is never changed.
SPECIAL: Final = {"meta": ("SELECT",), "events": ("SELECT", "INSERT", "DELETE")}

TABLES: Final = (
    "budgets",
    "constraints",
    "counts",
    "deferred_keys",
    "groups",
    "headrace_outbox",
    "headrace_outbox_batches",
    "history",
    "imports",
    "limits",
    "lines",
    "messages",
    "outboxes",
    "outgoing",
    "producers",
    "progress",
    "schedules",
    "seals",
    "streams",
    "tenants",
    "topics",
    "traffic",
    "unique_keys",
    "workers",
)

#: The name of a role that needs no quotes in SQL. Reserved words do not matter: roles are not called so.
_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*")

# schema; tables and rights, one by one → the role; the tables on which it lacks a right
MISSING: Final = """
SELECT current_user, array_agg(DISTINCT name) FILTER (WHERE NOT coalesce(
    has_table_privilege(to_regclass(format('%I.%I', $1::text, name)), wanted), false))
FROM unnest($2::text[], $3::text[]) AS needed (name, wanted)
"""

#: schema → how many functions the role may not execute. All may, unless PUBLIC was deprived of that right.
CLOSED_FUNCTIONS: Final = """
SELECT count(*) FROM pg_proc
WHERE pronamespace = to_regnamespace($1) AND NOT has_function_privilege(pg_proc.oid, 'EXECUTE')
"""


def grants_for(schema: str, role: str) -> list[str]:
    role = _quoted(role)
    named = ", ".join(f"{schema}.{table}" for table in TABLES)
    special = [
        f"GRANT {', '.join(rights)} ON {schema}.{table} TO {role}" for table, rights in SPECIAL.items()
    ]
    return [
        f"GRANT USAGE ON SCHEMA {schema} TO {role}",
        f"GRANT {', '.join(ALL)} ON {named} TO {role}",
        *special,
    ]


def grant_of_functions(schema: str, role: str) -> str:
    return f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {_quoted(role)}"


def _quoted(role: str) -> str:
    return role if _PLAIN.fullmatch(role) else '"{}"'.format(role.replace('"', '""'))


def needed_rights() -> tuple[list[str], list[str]]:
    """Tables and rights, one by one, for `MISSING`."""
    needed = [(table, right) for table in TABLES for right in ALL]
    needed += [(table, right) for table, rights in SPECIAL.items() for right in rights]
    return [table for table, _ in needed], [right for _, right in needed]
