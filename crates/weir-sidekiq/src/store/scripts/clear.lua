-- Deletes a list or a sorted set, unless one of its jobs may have features. Removes a queue, if one is named.
-- KEYS: the list or sorted set; the control hash of the queue to remove and the set of queues, if one is named; then
-- keys that exist if jobs may have features.
-- ARGV: 'list' or 'set', name of the queue to remove ('' for none).
-- Returns the number of jobs, or -1 if nothing was deleted.
local removed = ARGV[2] ~= ''
local jobs = redis.call(ARGV[1] == 'list' and 'LLEN' or 'ZCARD', KEYS[1])
for place = removed and 4 or 2, #KEYS do
  if jobs > 0 and redis.call('EXISTS', KEYS[place]) == 1 then return -1 end
end
redis.call('DEL', KEYS[1])
if removed then
  redis.call('DEL', KEYS[2])
  redis.call('SREM', KEYS[3], ARGV[2])
end
return jobs
