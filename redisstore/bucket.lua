-- Decides claims on buckets (token_bucket, gcra) that each stand alone and ask
-- for no more than their cost: nearly every check. It is the step of bucket.go
-- in package stint, written out in one loop, because calling a function for
-- each key costs as much as the arithmetic. take.lua decides everything else.
--
-- KEYS: one for each claim. ARGV[1] (big-endian):
--   clock i7 (-1: the server's), keep i7 (ms that a key outlives its state),
--   limits I3; for each: kind B, capacity i7, p i7, q i7, fill i7, unused i7;
--   then runs of claims under one limit, in the order of KEYS:
--   limit I2, cost I4, times I4, claims I2.
-- times is how many callers ask the same: as many of them as fit are charged.
--
-- It returns now i7, the number of callers allowed I4, for each key a byte with
-- the length of its state as it was (0: none, 254: a value of another type,
-- 255: no state of a bucket), and these states. From them the client takes the
-- same steps and knows every decision.
local spread, read, write, call = unpack, struct.unpack, struct.pack, redis.call
local text, args, keys = string.format, ARGV[1], KEYS
local old = call('MGET', unpack(keys))
local now, keep, limits, at = read('>i7i7I3', args)
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
-- Keys end at a millisecond: their end is rounded up, and counted from now
-- rounded down, and one more: since Redis 7.2 servers count from when the
-- script began.
-- They outlive their state by 15 s, so that a rate that is lowered meanwhile finds
-- what was used.
local start = (now - now % 1000) / 1000 - 1 - keep - 15000
local most = 9007199254740991

local sizes, allowed, first, numbers = {}, 0, 1, at + 1
at = at + 36 * limits
while at <= #args do
  local limit, cost, times, claims, next = read('>I2I4I4I2', args, at)
  local capacity, p, q, fill = read('>i7i7i7i7', args, numbers + 36 * limit)
  local full, need = capacity * 1000000, cost * 1000000
  local wanted = need * times
  for i = first, first + claims - 1 do
    local state, size = old[i], 0
    local last, whole, frac = now, full, 0
    if state then
      size = #state
      if size == 12 then
        last, whole, frac = read('>I7I4I1', state)
      elseif size == 11 then
        last, whole = read('>I7I4', state)
      elseif size == 14 then
        last, whole = read('>I7I7', state)
      elseif size > 14 and size < 22 then
        last, whole, frac = read('>I7I7I' .. size - 14, state)
      else
        last = most + 1
      end
      if last > most or whole > most or frac > most then
        size, old[i] = 255, ''
      else
        if frac >= q then frac = q - 1 end
        local e = now - last
        if e >= fill then
          last, whole, frac = now, full, 0
        elseif e > 0 then
          -- (e*p + frac)/q in parts below 2^53: e = a*q + b.
          local b = e % q
          local x = b * p + frac
          last, frac = now, x % q
          whole = whole + (e - b) / q * p + (x - frac) / q
        end
        if whole >= full then whole, frac = full, 0 end
      end
    else
      old[i] = ''
    end

    local fit = times
    if wanted > whole then fit = (whole - whole % need) / need end
    if size == 255 then
      fit = 0
    elseif fit > 0 and cost > 0 then
      whole = whole - fit * need
      -- The time to full, (missing*q - frac)/p rounded up: missing = a*p + b.
      local missing = full - whole
      local b = missing % p
      local x = b * q - frac
      local gone = last + (missing - b) / p * q + (x + -x % p) / p
      local ms = (gone + -gone % 1000) / 1000 - start
      local value
      if whole < 4294967296 and frac == 0 then
        value = write('>I7I4', last, whole)
      elseif whole < 4294967296 and frac < 256 then
        value = write('>I7I4I1', last, whole, frac)
      elseif frac == 0 then
        value = write('>I7I7', last, whole)
      else
        local bytes = 1
        while frac >= 256 ^ bytes do bytes = bytes + 1 end
        value = write('>I7I7I' .. bytes, last, whole, frac)
      end
      if state then
        call('PSETEX', keys[i], text('%d', ms), value) -- as a number it would take longer
      elseif not call('SET', keys[i], value, 'PX', ms, 'NX') then
        size, fit = 254, 0
      end
    elseif not state and call('TYPE', keys[i]).ok ~= 'none' then
      size, fit = 254, 0
    end
    sizes[i], allowed = size, allowed + fit
  end
  first, at = first + claims, next
end
return write('>i7I4', now, allowed) .. string.char(spread(sizes)) .. table.concat(old)
