"""Random actions on a queue with limits, tenants and ordered jobs, compared with a model."""
