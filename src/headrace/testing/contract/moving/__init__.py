"""Moving everything in a store to another store."""
