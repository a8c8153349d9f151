-- How many messages were done, failed or died in each minute, for plots. Rows are deleted after two hours.

CREATE TABLE headrace_traffic (
    namespace TEXT NOT NULL,
    minute    INTEGER NOT NULL,
    kind      TEXT NOT NULL,
    name      TEXT NOT NULL,
    done      INTEGER NOT NULL,
    failed    INTEGER NOT NULL,
    dead      INTEGER NOT NULL,
    PRIMARY KEY (namespace, minute, kind, name)
) STRICT, WITHOUT ROWID;
