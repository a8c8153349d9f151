"""The verbs of the store contract, each a step of one transaction."""
