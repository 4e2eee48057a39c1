-- Reads some of the ids in the reservations of a queue, without the jobs.
-- KEYS: reservations. ARGV: cursor ('0' to begin), the number of ids, more or less.
-- Returns the next cursor ('0' at the end) and the ids. An id may come twice.
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local ids = {page[1]}
for place = 1, #page[2], 2 do ids[#ids + 1] = page[2][place] end
return ids
