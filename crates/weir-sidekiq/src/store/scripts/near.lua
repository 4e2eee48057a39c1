-- Takes jobs out of a list of any length. Redis removes an entry from the middle of a list only after it has
-- compared all entries up to there, so jobs are searched where they were read, and removed together: each
-- becomes a mark at its position, which is quick, and the marks are removed in one pass.
-- Positions count from the end that is served first.

-- How far from where they were read jobs are searched, before (others have been served since) and behind
-- (others have returned).
local SEARCHED_BEFORE, SEARCHED_BEHIND = 5000, 1000
-- Bytes of entries that are read at once, and by one script: other jobs between those that are searched may
-- be large.
local PIECE_BYTES_MAX, READ_BYTES_MAX = 4194304, 16777216

-- Searches jobs between two positions and around them. At most `piece_max` entries are read at once, one at
-- first: its size decides how many come next. Returns the position of each job, or nil if it was not found,
-- and whether the search came to its end.
local function locate(list, jobs, first, last, piece_max)
  local wanted, missing, places = {}, #jobs, {}
  local piece, largest, bytes = 1, 1, 0
  for number, job in ipairs(jobs) do
    wanted[job] = wanted[job] or {}
    table.insert(wanted[job], number)
  end
  local function read(from, to)
    local entries = redis.call('LRANGE', list, -1 - to, -1 - from)
    for place = #entries, 1, -1 do
      bytes, largest = bytes + #entries[place], math.max(largest, #entries[place])
      local same = wanted[entries[place]]
      if same and #same > 0 then
        places[table.remove(same, 1)] = from + #entries - place
        missing = missing - 1
      end
    end
    piece = math.max(1, math.min(piece_max, math.floor(PIECE_BYTES_MAX / largest)))
    return #entries == to - from + 1
  end
  local function is_searching()
    return missing > 0 and bytes < READ_BYTES_MAX
  end
  local function read_on(from, to)
    while from <= to and is_searching() do
      local till = math.min(from + piece - 1, to)
      if not read(from, till) then break end
      from = till + 1
    end
  end
  read_on(first, last)
  local from = first
  while is_searching() and from > math.max(0, first - SEARCHED_BEFORE) do
    local to = from - 1
    from = math.max(0, from - piece)
    read(from, to)
  end
  read_on(last + 1, last + SEARCHED_BEHIND)
  return places, bytes < READ_BYTES_MAX
end

-- Removes the entries at these positions. No entry of the list equals `mark`.
local function cut(list, places, mark)
  local count, lowest, highest = 0, math.huge, 0
  for _, place in pairs(places) do
    redis.call('LSET', list, -1 - place, mark)
    count, lowest, highest = count + 1, math.min(lowest, place), math.max(highest, place)
  end
  if count == 0 then return end
  local is_near = highest < redis.call('LLEN', list) - lowest
  redis.call('LREM', list, is_near and -count or count, mark)
end

