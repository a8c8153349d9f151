"""Random actions on a topic and its groups, compared with a model."""
