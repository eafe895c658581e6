-- Replaces the mark of the server if it is the one that the caller knows, and in time.
--
-- KEYS[1]  the mark; head.lua describes it
-- ARGV[1]  the mark that is to be there; empty: none
-- ARGV[2]  the new one; empty: replace nothing
-- ARGV[3]  last time (7 bytes, microseconds; 0: any) at which to replace it
--
-- The reply has a byte, 1 if the mark was replaced and 0 otherwise, the time (7 bytes,
-- microseconds), and then the mark that is there now.
local set, stored, time = 0, redis.call('GET', KEYS[1]) or '', redis.call('TIME')
local now, last = tonumber(time[1]) * 1e6 + tonumber(time[2]), struct.unpack('>I7', ARGV[3])
if ARGV[2] ~= '' and stored == ARGV[1] and (last == 0 or now <= last) then
  redis.call('SET', KEYS[1], ARGV[2])
  set, stored = 1, ARGV[2]
end
return {struct.pack('>BI7', set, now) .. stored}
