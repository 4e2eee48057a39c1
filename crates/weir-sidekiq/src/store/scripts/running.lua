-- Reads how many jobs are in progress that use resources by their type.
-- KEYS: for each resource its jobs in progress. ARGV: the number of jobs that are examined of each.
-- Returns a number for each. Of more jobs than are examined, it is an estimate.
local counts = {}
for place, key in ipairs(KEYS) do
  local members = redis.pcall('SRANDMEMBER', key, ARGV[1])
  local examined, running = 0, 0
  for _, member in ipairs(members.err and {} or members) do
    local reserved, field = string.match(member, '^(.*) ([^ ]+)$')
    if reserved then
      examined = examined + 1
      if redis.pcall('HEXISTS', reserved, field) ~= 0 then running = running + 1 end
    end
  end
  local length = redis.pcall('SCARD', key)
  local all = type(length) == 'number' and length - 1 or 0
  if examined > 0 and all > examined then running = math.floor(running / examined * all) end
  counts[place] = running
end
return counts
