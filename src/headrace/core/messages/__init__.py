"""A message, its claim and its outcome: what producers send, workers hold and stores keep."""
