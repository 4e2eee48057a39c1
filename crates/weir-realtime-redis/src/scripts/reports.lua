-- Stores what a node reports about itself, reads what all have reported, and removes what is too old.
-- KEYS: reports
-- ARGV: node, its report, milliseconds after which Redis forgets all reports, the number of nodes that are
-- read, more or less, the largest size of a report, seconds after which a report is removed, the report that
-- this one may replace (empty: any).
-- Returns for each report its node, its age in seconds and its text. A report is stored behind the time in
-- seconds.
local time = redis.call('TIME')
local now, count, bytes_max, age_max = tonumber(time[1]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local reports = {}
-- Another type of key takes away what is shown, and stops no node.
local stored = redis.pcall('HGET', KEYS[1], ARGV[1])
if type(stored) == 'table' then return reports end
if ARGV[7] == '' or (stored and string.match(stored, '^%d+ (.*)$') == ARGV[7]) then
  redis.call('HSET', KEYS[1], ARGV[1], time[1] .. ' ' .. ARGV[2])
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
local page = redis.call('HSCAN', KEYS[1], '0', 'COUNT', count)
for place = 1, math.min(#page[2], 2 * count), 2 do
  local node, value = page[2][place], page[2][place + 1]
  local since, text = string.match(value, '^(%d+) ?(.*)$')
  if not since or #since > 15 or #node > 64 or #value > bytes_max or now - tonumber(since) > age_max then
    redis.call('HDEL', KEYS[1], node)
  else
    local last = #reports
    reports[last + 1], reports[last + 2] = node, math.max(0, now - tonumber(since))
    reports[last + 3] = text
  end
end
return reports
