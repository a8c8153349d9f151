"""The SQL statements, by subject. `headrace.` stands for the schema of the store."""
