-- Moves waiting jobs, each only if it is still where it was read.
-- KEYS: source, target, set of queue names.
-- ARGV: 'list' or 'set' (source), 'list', 'set' or 'none' (target), queue name or score, then for
-- each job its text and its new text.
-- Returns 1 for each job that was moved and 0 for each that was not there any more.
local moved = {}
for place = 4, #ARGV, 2 do
  local found
  if ARGV[1] == 'list' then
    found = redis.call('LREM', KEYS[1], -1, ARGV[place]) == 1
  else
    found = redis.call('ZREM', KEYS[1], ARGV[place]) == 1
  end
  moved[#moved + 1] = found and 1 or 0
  if found and ARGV[2] == 'list' then
    redis.call('SADD', KEYS[3], ARGV[3])
    redis.call('LPUSH', KEYS[2], ARGV[place + 1])
  elseif found and ARGV[2] == 'set' then
    redis.call('ZADD', KEYS[2], ARGV[3], ARGV[place + 1])
  end
end
return moved
