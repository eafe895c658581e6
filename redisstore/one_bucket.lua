-- Decides one claim of one caller on a bucket (token_bucket, gcra) that is a group
-- of one and asks for no extra. It is plain.lua without the code for several
-- claims: between two such calls the server's cache loses the script, so every
-- line costs.
--
-- KEYS: the key. ARGV[1] (big-endian):
--   clock i7 (-1: the server's), keep i7 (ms that a key outlives its state),
--   cost I4, kind B, capacity i7, p i7, q i7, fill i7, unused i7.
-- It returns the same as plain.lua.
local read, write, call = struct.unpack, struct.pack, redis.call
local text, key, times = string.format, KEYS[1], 1
local state = call('MGET', key)[1]
local now, keep, cost, kind, capacity, p, q, fill = read('>i7i7I4Bi7i7i7i7', ARGV[1])
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local start = (now - now % 1000) / 1000 - 1 - keep - 15000 -- as in plain.lua
local full, need = capacity * 1e6, cost * 1e6
local wanted = need
-- bucket_step.lua
return write('>i7I4B', now, fit, size) .. (state or '')
