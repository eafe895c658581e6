-- Decides one claim of one caller on a sliding window counter of one bucket that is a
-- group of one and asks for no extra. It is to counters what one_bucket.lua is to
-- buckets.
--
-- KEYS: the key. ARGV[1] (big-endian):
--   clock i7 (-1: the server's), keep i7 (ms that a key outlives its state),
--   cost I4, kind B, most i7, width i7, unused i7, i7 and i7.
-- It returns the same as plain.lua. width is made a float for the reason in take.lua.
local read, write, call = struct.unpack, struct.pack, redis.call
local text, key, times = string.format, KEYS[1], 1
local state = call('MGET', key)[1]
local now, keep, cost, kind, most, width = read('>i7i7I4Bi7i7', ARGV[1])
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local start, wanted = (now - now % 1000) / 1000 - 1 - keep, cost -- as in plain.lua
width = width + 0.0
-- counter_step.lua
return write('>i7I4B', now, fit, size) .. (state or '')
