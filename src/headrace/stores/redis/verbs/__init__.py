"""The verbs of the contract as script calls."""
