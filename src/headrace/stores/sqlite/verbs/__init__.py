"""The verbs of the contract as steps of a transaction."""
