-- Decides one claim on a bucket (token_bucket, gcra) that stands alone and asks
-- for no more than its cost, for one caller: what a check is that leaves at
-- once. It is bucket.lua without what many claims need: the server is slow with
-- what it has not just run, so a lone check waits for each line of a script.
--
-- KEYS: one. ARGV[1] (big-endian):
--   clock i7 (-1: the server's), keep i7 (ms that a key outlives its state),
--   cost I4, kind B, capacity i7, p i7, q i7, fill i7, unused i7.
-- It returns what bucket.lua does.
local read, write, call = struct.unpack, struct.pack, redis.call
local text, key, times = string.format, KEYS[1], 1
local state = call('MGET', key)[1]
local now, keep, cost, kind, capacity, p, q, fill = read('>i7i7I4Bi7i7i7i7', ARGV[1])
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local start = (now - now % 1000) / 1000 - 1 - keep - 15000 -- as in bucket.lua
local full, need = capacity * 1000000, cost * 1000000
local wanted = need
-- step.lua
return write('>i7I4B', now, fit, size) .. (state or '')
