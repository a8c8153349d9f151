"""Moving everything that a store holds to another store: the verbs, and what they hand over."""
