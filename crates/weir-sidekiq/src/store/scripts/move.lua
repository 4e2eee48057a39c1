-- Moves waiting jobs, each only if it is still where it was read.
-- KEYS: source, target, leases, set of queue names, unless the caller adds the name itself.
-- ARGV: 'list' or 'set' (source), 'list', 'set' or 'none' (target), queue name or score, owner whose
-- lease must be alive ('' for any), then for each job its text and its new text.
-- Returns for each job 1 if it was moved, 0 if it was not there any more, and -1 if it stays because
-- the target is of another type. Returns nothing if the lease is over.
if ARGV[4] ~= '' then
  local time = redis.call('TIME')
  local lease = redis.call('ZSCORE', KEYS[3], ARGV[4])
  if not lease or tonumber(lease) <= time[1] + time[2] / 1000000 then return {} end
end
local kinds = {list = 'list', set = 'zset'}
local kind = redis.call('TYPE', KEYS[2])['ok']
local fits = ARGV[2] == 'none' or kind == 'none' or kind == kinds[ARGV[2]]
local moved = {}
for place = 5, #ARGV, 2 do
  local done = -1
  if fits then
    if ARGV[1] == 'list' then
      done = redis.call('LREM', KEYS[1], -1, ARGV[place])
    else
      done = redis.call('ZREM', KEYS[1], ARGV[place])
    end
    if done == 1 and ARGV[2] == 'list' then
      redis.call('LPUSH', KEYS[2], ARGV[place + 1])
      if KEYS[4] then redis.pcall('SADD', KEYS[4], ARGV[3]) end
    elseif done == 1 and ARGV[2] == 'set' then
      redis.call('ZADD', KEYS[2], ARGV[3], ARGV[place + 1])
    end
  end
  moved[#moved + 1] = done
end
return moved
