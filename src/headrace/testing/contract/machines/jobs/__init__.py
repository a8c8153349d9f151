"""Random actions on a queue, compared with a model."""
