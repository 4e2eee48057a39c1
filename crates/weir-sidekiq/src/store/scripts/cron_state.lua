-- What is remembered of a cron job: its last time in microseconds, whether it is paused (0 or 1), and the second in
-- which a node last noted that its settings have it. Precedes the scripts of cron jobs.
local function read_state(text)
  local last, paused, seen = string.match(text or '', '^(%d+) ([01]) (%d+)')
  return last and {last = tonumber(last), paused = paused, seen = tonumber(seen)}
end

local function write_state(key, name, last, paused, seen)
  redis.call('HSET', key, name, string.format('%.0f %s %.0f', last, paused, seen))
end
