-- Adds a node's jobs to Sidekiq's counters, each job once, however often the script runs.
-- KEYS: what was added for the node, the counters, and the leases if a lease must be alive.
-- ARGV: owner whose lease must be alive ('' for any), id of the process, seconds that the first key is
-- kept; then for each counter its field in the first key, the jobs of the process since its start, those
-- of them that were added before if the field is missing, and the seconds that the counter is kept ('' for
-- ever).
-- Returns 1, or 0 if the lease is over.
if ARGV[1] ~= '' then
  local time = redis.call('TIME')
  local lease = redis.call('ZSCORE', KEYS[#KEYS], ARGV[1])
  if not lease or tonumber(lease) <= time[1] + time[2] / 1000000 then return 0 end
end
local counted, last = KEYS[1], {}
local is_same = redis.pcall('HGET', counted, 'process') == ARGV[2]
if not is_same then redis.pcall('DEL', counted) end
local written = {'process', ARGV[2]}
for place = 4, #ARGV, 4 do
  local field, total = ARGV[place], tonumber(ARGV[place + 1])
  if last[field] == nil then
    local added = is_same and redis.pcall('HGET', counted, field)
    last[field] = type(added) == 'string' and tonumber(added) or tonumber(ARGV[place + 2])
  end
  local counter = KEYS[1 + (place - 4) / 4 + 1]
  if total > last[field] then
    redis.pcall('INCRBY', counter, string.format('%.0f', total - last[field]))
    if ARGV[place + 3] ~= '' then redis.pcall('EXPIRE', counter, ARGV[place + 3]) end
  end
  written[#written + 1], written[#written + 2] = field, ARGV[place + 1]
end
redis.pcall('HSET', counted, unpack(written))
redis.pcall('EXPIRE', counted, ARGV[3])
return 1
