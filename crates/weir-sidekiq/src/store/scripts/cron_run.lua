-- Handles a time of a cron job, and stores its job: both or neither. Follows cron_state.lua; push.lua follows, and
-- cron_end.lua.
-- KEYS: the times that were handled, then those of push.lua.
-- ARGV: name, time in microseconds, the second now, seconds after which the times are forgotten ('' for never), 'push', or
-- 'skip' for no job; then those of push.lua.
-- Returns 'handled', 'paused' (without the job), 'left-out' (without the job, because another one has its lock), or
-- 'before': it or a later time was handled before. The time stays open with 'no-room' (for the lock of the job) and
-- 'no-batch' (that of the job does not exist).
local times = table.remove(KEYS, 1)
local name, at, second = table.remove(ARGV, 1), tonumber(table.remove(ARGV, 1)), tonumber(table.remove(ARGV, 1))
local kept, mode = table.remove(ARGV, 1), table.remove(ARGV, 1)
local state = read_state(redis.call('HGET', times, name))
if state and state.last >= at then return 'before' end
local paused, seen = state and state.paused or '0', state and state.seen or second

local function handle()
  write_state(times, name, at, paused, seen)
  if kept ~= '' then redis.call('EXPIRE', times, kept) end
end

local function push()
