-- Forgets nodes that were gone for long, or that are too many. The highest epoch of those that were
-- forgotten stays, as the field 'forgotten': a node that comes back begins above it.
-- KEYS: leases, epochs, epochs that were closed in order, reports.
-- ARGV: owner whose lease must be alive, cursor in the epochs, the number of epochs to examine,
-- seconds after which a node is forgotten, the number of nodes that are kept.
-- Returns the next cursor, or nothing if the lease is over.
local time = redis.call('TIME')
local now, micros = tonumber(time[1]), time[2] / 1000000
local function is_alive(owner)
  local lease = redis.call('ZSCORE', KEYS[1], owner)
  return lease and tonumber(lease) > now + micros
end
if not is_alive(ARGV[1]) then return nil end
local page = redis.pcall('HSCAN', KEYS[2], ARGV[2], 'COUNT', ARGV[3])
if page.err then return '0' end
local left, forgotten = redis.call('HLEN', KEYS[2]), 0
for place = 1, #page[2], 2 do
  local node, epoch = page[2][place], page[2][place + 1]
  if node ~= 'forgotten' and not is_alive(node .. '-' .. epoch) then
    local report = redis.pcall('HGET', KEYS[4], node)
    local seen = type(report) == 'string' and tonumber(string.match(report, '^%d+'))
    if left > tonumber(ARGV[5]) or (seen and now - seen > tonumber(ARGV[4])) then
      redis.call('HDEL', KEYS[2], node)
      redis.call('HDEL', KEYS[3], node)
      redis.pcall('HDEL', KEYS[4], node)
      left, forgotten = left - 1, math.max(forgotten, tonumber(epoch) or 0)
    elseif not seen then
      -- An older version has reported nothing: its time begins now.
      redis.pcall('HSET', KEYS[4], node, time[1] .. ' ')
    end
  end
end
if forgotten > (tonumber(redis.call('HGET', KEYS[2], 'forgotten') or '0') or 0) then
  redis.call('HSET', KEYS[2], 'forgotten', string.format('%.0f', forgotten))
end
return page[1]
