-- Stores what a node reports about itself, and reads what all of them have reported.
-- KEYS: reports, leases.
-- ARGV: node, its report, seconds after which Redis forgets all reports, the number of nodes that are
-- read, more or less, the largest size of a report.
-- Returns the owners whose lease is alive, then for each report its node, its age in seconds and its
-- text. A report is stored behind the time in seconds.
local time = redis.call('TIME')
local now, count, bytes_max = tonumber(time[1]), tonumber(ARGV[4]), tonumber(ARGV[5])
local alive = redis.pcall('ZRANGEBYSCORE', KEYS[2], '(' .. time[1], '+inf', 'LIMIT', 0, count)
if alive.err then alive = {} end
local reports = {}
-- Another type of key takes away what is shown, and stops no node.
redis.pcall('HSET', KEYS[1], ARGV[1], time[1] .. ' ' .. ARGV[2])
redis.pcall('EXPIRE', KEYS[1], ARGV[3])
local page = redis.pcall('HSCAN', KEYS[1], '0', 'COUNT', count)
if page.err then return {alive, reports} end
for place = 1, math.min(#page[2], 2 * count), 2 do
  local node, value = page[2][place], page[2][place + 1]
  local since, text = string.match(value, '^(%d+) ?(.*)$')
  if since and #since < 16 and #node <= 64 and #value <= bytes_max then
    local last = #reports
    reports[last + 1], reports[last + 2] = node, math.max(0, now - tonumber(since))
    reports[last + 3] = text
  end
end
return {alive, reports}
