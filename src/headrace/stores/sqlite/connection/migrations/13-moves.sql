-- Adds the seal of a store whose content moves to another store, and how far the import from another store has
-- come. `sealed` of a stream has 2 more when its store is sealed, and 4 more when it was paused before.

CREATE TABLE headrace_seals (
    namespace TEXT PRIMARY KEY,
    seal      BLOB NOT NULL                  -- core/moving/seal.py
) STRICT, WITHOUT ROWID;

CREATE TABLE headrace_imports (
    namespace TEXT NOT NULL,
    kind      TEXT NOT NULL,                 -- of the stream in the other store
    name      TEXT NOT NULL,
    move      TEXT NOT NULL,
    place     TEXT NOT NULL,
    count     INTEGER NOT NULL,
    PRIMARY KEY (namespace, kind, name, move)
) STRICT, WITHOUT ROWID;
