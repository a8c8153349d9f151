"""Random sequences of actions on a store, compared with a model of it."""
