-- Counts jobs in progress for resources that have types, before the first of their jobs starts. Follows classes.lua.
-- KEYS: the reservations of a queue, then the jobs in progress of such resources.
-- ARGV: the limits of the queue as for take.lua, cursor ('0' to begin), the number of reservations, more or less.
-- Returns the next cursor ('0' at the end).
local limits = cjson.decode(ARGV[1])
prepare_types(limits)
local page = redis.pcall('HSCAN', KEYS[1], ARGV[2], 'COUNT', ARGV[3])
if page.err then return '0' end
local of_queue = {}
for _, place in ipairs(limits.queues[1].resources) do of_queue[place] = true end
for place = 1, #page[2], 2 do
  local field, value = page[2][place], page[2][place + 1]
  local class = class_of(limits, string.sub(value, (string.find(value, '\n', 1, true) or 0) + 1))
  for _, used in ipairs(class and limits.classes[class].resources or {}) do
    -- All jobs of the queue are counted otherwise.
    if not of_queue[used] then
      redis.call('SADD', KEYS[limits.resources[used].running], KEYS[1] .. ' ' .. field)
    end
  end
end
return page[1]
