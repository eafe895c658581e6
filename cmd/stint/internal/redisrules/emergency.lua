-- Reads the record of the emergency, and how long it is still valid by the server's clock.
--
-- KEYS[1]  string: see switch.lua
--
-- Returns the value, or an empty string if there is none, and the milliseconds that are left.
local value = redis.call('GET', KEYS[1])
if not value then
  return {'', 0}
end
return {value, redis.call('PTTL', KEYS[1])}
