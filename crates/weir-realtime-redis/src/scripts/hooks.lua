-- Functions of the scripts that change subscriptions and members: the webhooks that report these changes. A node
-- notes each webhook until it is settled, so that another node can repeat it. One of a channel or a member that
-- left waits for a while, in which one that returns cancels it.
-- A webhook is a letter (o, v: the channel is occupied, vacated; a, r: the member was added, removed), APP:CHANNEL,
-- a newline, and the user.
local hooks = { added = {} }

-- `beginning` is that of the partition's keys. Without a prefix of the ids, nothing is noted.
local function begin_hooks(beginning, node, prefix)
  hooks.of, hooks.leaving, hooks.node, hooks.prefix = beginning .. 'hooks-of:', beginning .. 'leaving', node, prefix
end

local function add_hook(letter, entry, user)
  -- Signed-in users are stored as members of such channels, and have no webhooks.
  if hooks.prefix == '' or string.find(entry, '^[^:]*:#users%-') then return end
  local leaves = letter == 'v' or letter == 'r'
  local subject = ((letter == 'o' or letter == 'v') and 'c' or 'm') .. entry .. '\n' .. user
  local leaving = not leaves and redis.call('HGET', hooks.leaving, subject)
  if leaving then
    local node, id = string.match(leaving, '^(%S+) (%S+)$')
    redis.call('HDEL', hooks.leaving, subject)
    redis.call('HDEL', hooks.of .. node, id)
    return
  end
  local id, value = hooks.prefix .. '-' .. #hooks.added / 2, letter .. entry .. '\n' .. user
  redis.call('HSET', hooks.of .. hooks.node, id, value)
  if leaves then redis.call('HSET', hooks.leaving, subject, hooks.node .. ' ' .. id) end
  hooks.added[#hooks.added + 1] = id
  hooks.added[#hooks.added + 1] = value
end
