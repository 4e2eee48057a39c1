-- Ends a claim that was carried out: its time is handled. Follows cron_state.lua.
-- KEYS: cron jobs, claims. ARGV: name, time in microseconds, the second now.
local claim = redis.call('HGET', KEYS[2], ARGV[1])
if not claim or string.match(claim, '^%d+') ~= ARGV[2] then return 0 end
local state = read_state(redis.call('HGET', KEYS[1], ARGV[1]))
local last = math.max(tonumber(ARGV[2]), state and state.last or 0)
write_state(KEYS[1], ARGV[1], last, state and state.paused or '0', state and state.seen or tonumber(ARGV[3]))
redis.call('HDEL', KEYS[2], ARGV[1])
return 1
