"""The SQL statements of the store."""
