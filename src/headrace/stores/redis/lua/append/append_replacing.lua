-- Stores the messages of a batch of which some replace the waiting holder of their unique key, as append.lua does. Their
-- kind is r, or R when the id of the new message must stay known. The key is held until the message is started.
--
-- requires: ordering ending expiry expiring unique healing limits lines replacing
-- calls:    append
return append()
