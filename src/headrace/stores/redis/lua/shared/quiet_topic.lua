-- Ends the script when no event is due and none is named. This comes before the parts that it does not need then.
do
  local first, now = first_due(), clock()
  if ARGV[7] == '' and not (first and first <= now) then
    return { 0, first and first - now or -1, 0, promotions() }
  end
end
