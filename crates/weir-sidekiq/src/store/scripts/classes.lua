-- Knows the class of a job: which resources it uses by its type. Precedes scripts that define `limits`.
-- `limits.types` has the place of the class of each type that uses resources, from 1. `limits.classes` has for each
-- class its `suffix` and its `resources`, which are places in `limits.resources`.

-- Up to so many types, a job is decoded only if its text has one of their names.
local NAMES_SEARCHED_MAX = 16
-- As the class of a job is shown.
local WRAPPED_BYTES_MAX = 255

local type_names, finds_names

local function prepare_types(limits)
  type_names, finds_names = {}, true
  for name in pairs(limits.types) do
    type_names[#type_names + 1] = name
    -- Such a name may be written in several ways.
    if string.find(name, '[^%w_:.%-]') then finds_names = false end
  end
  finds_names = finds_names and #type_names <= NAMES_SEARCHED_MAX
end

local function may_have_class(job)
  if #type_names == 0 then return false end
  -- Any character may be written as \u....
  if not finds_names or string.find(job, '\\u', 1, true) then return true end
  for _, name in ipairs(type_names) do
    if string.find(job, name, 1, true) then return true end
  end
  return false
end

local function is_wrapped(value)
  return type(value) == 'string' and #value > 0 and #value <= WRAPPED_BYTES_MAX
end

-- Returns the place of the class of a job; nil if it uses no resources by its type. The type is that which the job wraps,
-- if that uses resources, or else its own.
local function class_of(limits, job)
  if not may_have_class(job) then return nil end
  local is_decoded, members = pcall(cjson.decode, job)
  if is_decoded and type(members) == 'table' then
    local wrapped = members.wrapped
    if not is_wrapped(wrapped) and type(members.custom) == 'table' then wrapped = members.custom.wrapped end
    local class = is_wrapped(wrapped) and limits.types[wrapped]
    if class then return class end
    return type(members.class) == 'string' and limits.types[members.class] or nil
  end
  -- Weir's parser may know it all the same. A job that names a limited type anywhere must not exceed the limit.
  for _, name in ipairs(type_names) do
    if string.find(job, cjson.encode(name), 1, true) then return limits.types[name] end
  end
  return nil
end

