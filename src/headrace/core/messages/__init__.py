"""A message, its claim and its outcome: the values that producers send, workers hold and stores keep."""
