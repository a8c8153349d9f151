-- The seal of a store whose content moves to another store: '<stage> <target>' at the prefix of producers, where no
-- producer has a value, and where a part that is sealed has a 1.

-- The answer to a step that adds something; nil: the store is not sealed. `relayed`: a relay adds it, which may go on
-- while the store drains.
local function moved_answer(sealed, relayed)
  local stage, target = string.match(sealed or '', '^(%a+) (.*)$')
  if stage and not (relayed and stage == 'draining') then
    return redis.error_reply('STOREMOVED ' .. target)
  end
end
