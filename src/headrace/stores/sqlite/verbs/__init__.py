"""The verbs of the store contract, each as a step of a transaction."""
