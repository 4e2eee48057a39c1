-- The second half of a move to another slot: jobs enter their target, each once, however often the
-- script runs.
-- KEYS: target, sorted set of the moves that have arrived.
-- ARGV: 'list' or 'set' (target), score ('' for a list), seconds for which at least a move is remembered,
-- the number of moves that are remembered in any case, then for each job the id of its move and its text.
-- Returns 1, or 0 if the target is of another type.
local kind = redis.call('TYPE', KEYS[1])['ok']
local expected = ARGV[1] == 'list' and 'list' or 'zset'
if kind ~= 'none' and kind ~= expected then return 0 end
local now, kept = redis.call('TIME')[1], tonumber(ARGV[3])
for place = 5, #ARGV, 2 do
  if redis.call('ZADD', KEYS[2], 'NX', now, ARGV[place]) == 1 then
    if ARGV[1] == 'list' then
      redis.call('LPUSH', KEYS[1], ARGV[place + 1])
    else
      redis.call('ZADD', KEYS[1], ARGV[2], ARGV[place + 1])
    end
  end
end
if redis.call('ZCARD', KEYS[2]) > tonumber(ARGV[4]) then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - kept)
end
redis.call('EXPIRE', KEYS[2], 2 * kept)
return 1
