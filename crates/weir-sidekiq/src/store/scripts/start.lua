-- Frees the locks that end when their jobs start. Follows features.lua.
-- KEYS: keys of features. ARGV: tags.
-- Returns for each job when its lock would have ended, in microseconds, or '' if it held none.
local ends = {}
for place, tag in ipairs(ARGV) do
  local ends_at = apply_event('started', tag)
  ends[place] = ends_at and string.format('%.0f', ends_at) or ''
end
return ends
