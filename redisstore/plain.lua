-- Decides claims on buckets (token_bucket, gcra), fixed windows and sliding window
-- counters of one bucket that are each a group of one and ask for no extra, as nearly
-- every check does. one_bucket.lua, one_window.lua and one_counter.lua decide such a
-- claim in a call of its own, take.lua everything else.
--
-- KEYS: the key of each claim. ARGV[1] (big-endian):
--   clock i7 (-1: the server's), keep i7 (ms that a key outlives its state),
--   limits I3; for each: kind B (1: bucket, 3: window, 5: counter), most i7, and
--   four numbers i7: p, q, fill and one unused of a bucket; the length and three
--   unused of a window; the width and three unused of a counter;
--   then runs of claims under one limit, in the order of KEYS:
--   limit I2, cost I4, times I4, claims I2.
-- times is the number of callers with this claim; as many as fit are charged.
--
-- It returns now i7, the number of callers allowed I4, for each key a byte with
-- the length of its state before the call (0: none, 254: a value of another type,
-- 255: not a state of its kind), and these states. The client repeats the steps on
-- them and so computes every decision.
--
-- A product that may exceed 2^53 has a factor that is a float: see take.lua.
local spread = table.unpack or unpack -- Lua 5.4 has no global unpack
local read, write, call = struct.unpack, struct.pack, redis.call
local text, args, keys = string.format, ARGV[1], KEYS
local old = call('MGET', spread(keys))
local now, keep, limits, at = read('>i7i7I3', args)
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
-- Expiries are in whole milliseconds: the end is rounded up and now is rounded
-- down. One more is added, because since Redis 7.2 servers count from the start of
-- the script. Keys of buckets outlive their state by 15 s, so that a bucket whose
-- rate is lowered keeps its usage.
local startOfWindows = (now - now % 1000) / 1000 - 1 - keep
local startOfBuckets = startOfWindows - 15000

local sizes, allowed, first, numbers = {}, 0, 1, at
at = at + 36 * limits
while at <= #args do
  local limit, cost, times, claims, next = read('>I2I4I4I2', args, at)
  local kind, most, a, b, c = read('>Bi7i7i7i7', args, numbers + 36 * limit)
  if kind == 3 then
    local window, wanted, start = a, cost * times, startOfWindows
    for i = first, first + claims - 1 do
      local key, state = keys[i], old[i]
      -- window_step.lua
      old[i] = state or ''
      sizes[i], allowed = size, allowed + fit
    end
  elseif kind == 5 then
    local width, wanted, start = a + 0.0, cost * times, startOfWindows
    for i = first, first + claims - 1 do
      local key, state = keys[i], old[i]
      -- counter_step.lua
      old[i] = state or ''
      sizes[i], allowed = size, allowed + fit
    end
  else
    local p, q, fill, full, need = a, b, c, most * 1e6, cost * 1e6
    local wanted, start = need * times, startOfBuckets
    for i = first, first + claims - 1 do
      local key, state = keys[i], old[i]
      -- bucket_step.lua
      old[i] = state or ''
      sizes[i], allowed = size, allowed + fit
    end
  end
  first, at = first + claims, next
end
return write('>i7I4', now, allowed) .. string.char(spread(sizes)) .. table.concat(old)
