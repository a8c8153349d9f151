"""What the SQL stores share: how their rows are read and built, and the plans of their steps. Nothing in here
runs a statement. A store reads rows, asks a plan of this folder what must change, and writes that.

- `lanes`, `claim_query`: the place of a message as a number, and the order in which a claim takes lanes
- `appending`, `key_owners`: which messages of a batch are accepted, who holds a unique key, the columns of a
  new message
- `change_set`: what changes when a message is queued, scheduled, ended or buried, with its key, its counts
  and its waiters
- `settling`, `recovering`, `replaying`: the verdict for a settlement, the end of a lease, the replay of a
  dead letter: a `ChangeSet`
- `budgets`, `line_changes`: what limits allow, and which lines and slots a step changes
- `choosing`, `taking`: what a claim takes from the lanes and from open lines
- `transaction_state`, `wake_ups`: what a transaction collects until its commit
- `waiters`: which callers wait in this process, and what wakes them
- `schedules`: in which steps schedules are swapped
- `order_keys`: which jobs of an order key are let in
- `record_rows`, `topic_rows`, `upkeep_rows`: records and pages from rows
"""
