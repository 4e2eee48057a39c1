-- Adds a node's jobs to Sidekiq's counters, each job once, however often the script runs.
-- KEYS: leases, what was added for the node, then for processed and failed jobs: the counter of all
-- time and the counter of the day.
-- ARGV: owner whose lease must be alive, id of the process, seconds that the second key and the
-- counters of the day are kept, then the processed and the failed jobs of the process since its start.
-- Returns 1, or 0 if the lease is over.
local time = redis.call('TIME')
local lease = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not lease or tonumber(lease) <= time[1] + time[2] / 1000000 then return 0 end
local last = redis.pcall('HMGET', KEYS[2], 'process', 'processed', 'failed')
if last.err or last[1] ~= ARGV[2] then last = {ARGV[2], 0, 0} end
for place = 1, 2 do
  local more = tonumber(ARGV[4 + place]) - (tonumber(last[place + 1]) or 0)
  if more > 0 then
    local amount = string.format("%.0f", more)
    redis.pcall('INCRBY', KEYS[1 + 2 * place], amount)
    redis.pcall('INCRBY', KEYS[2 + 2 * place], amount)
    redis.pcall('EXPIRE', KEYS[2 + 2 * place], ARGV[4])
  end
end
redis.pcall('HSET', KEYS[2], 'process', ARGV[2], 'processed', ARGV[5], 'failed', ARGV[6])
redis.pcall('EXPIRE', KEYS[2], ARGV[3])
return 1
