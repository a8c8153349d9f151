-- What was done and failed, by the minute, for plots. Minutes are forgotten after two hours.

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
