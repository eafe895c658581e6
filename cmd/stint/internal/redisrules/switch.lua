-- Switches the emergency on or off, if the newest record is still the expected one.
--
-- KEYS[1]  string: the revision of the newest record, the times in milliseconds since and until
--          which it is valid, and the record, each after a space. It expires with the record
-- ARGV[1]  the revision of the new record
-- ARGV[2]  the revision that the newest record must have, an empty string for any, or '-' if there
--          must be no record
-- ARGV[3]  for how many milliseconds the record is valid
-- ARGV[4]  the record
--
-- Returns the new value of the key, or an empty string if the newest record is another one.
local newest = redis.call('GET', KEYS[1])
if redis.call('PTTL', KEYS[1]) == 0 then -- its last millisecond: readers count it as ended
  newest = false
end
local revision = newest and string.match(newest, '^%S+') or '-'
if ARGV[2] ~= '' and revision ~= ARGV[2] then
  return ''
end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local value = string.format('%s %.0f %.0f %s', ARGV[1], now, now + ARGV[3], ARGV[4])
redis.call('SET', KEYS[1], value, 'PX', ARGV[3])
return value
