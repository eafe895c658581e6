-- A token bucket with exact arithmetic, one key per call. It stands for a program that calls a
-- plain script and does not optimize further.
--
-- KEYS[1]: a bucket. ARGV: capacity in micro-units, refill rate p/q (a reduced fraction of
-- micro-units a microsecond), microseconds from empty to full, cost in micro-units. The answer
-- is the state, and a plus if admitted.
local capacity, p, q = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local full, cost = tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local last, level, part = now, capacity, 0
local held = redis.call('GET', KEYS[1])
if held then
  last, level, part = struct.unpack('>I7I7I7', held)
  now = math.max(now, last)
  local gone = now - last
  if gone >= full then
    level, part = capacity, 0
  else
    local whole = math.floor(gone / q)
    local x = (gone - whole * q) * p + part
    level = level + whole * p + math.floor(x / q)
    part = x % q
    if level >= capacity then
      level, part = capacity, 0
    end
  end
end
if level < cost then
  return struct.pack('>I7I7I7', now, level, part)
end
level = level - cost
local until_full = math.ceil(((capacity - level) * q - part) / p)
redis.call('SET', KEYS[1], struct.pack('>I7I7I7', now, level, part), 'PX', math.ceil(until_full / 1000))
return struct.pack('>I7I7I7', now, level, part) .. '+'
