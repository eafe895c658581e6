-- Decides groups of claims of every algorithm. It is a translation of the
-- steps of package stint: each part names its Go file. Go divides whole
-- numbers; in Lua every number is a double, so a product must stay below 2^53,
-- or be computed in parts that do.
--
-- That is Lua 5.1, which Redis and Valkey have. The scripts also run on Lua 5.4, which
-- Dragonfly has, and do the same there. In Lua 5.4 a whole number can be a 64-bit
-- integer, and a product of integers wraps. A script tests some products for being too
-- great, so one factor of each must be a float: 1e6, or a number to which 0.0 was added.
--
-- KEYS: the distinct keys, those of logs last. ARGV[1] (big-endian):
--   clock i7 (-1: the server's), keep i7 (ms that a key outlives its state),
--   number of keys without a log I4, limits I3; for each limit: kind B (plus 16
--   times the lifetime class of a caller's limit), max i7, and four numbers i7
--   by kind;
--   then claims: key I4, limit I3, cost i7 (-2^53: forget), at i7, extra I4,
--   times I4, any B, flags B (1: last claim of its group; 2: the group is charged
--   only if the last group without this flag was admitted; 4: the group is never
--   charged; 8, on any claim: the group is refused if it would create a state for
--   that claim).
-- On a leaky bucket, at is the greatest delay that the caller can use (2^53 - 1:
-- any), because a leaky bucket has no refunds.
-- times is the number of callers with this claim; as many as fit are charged.
--
-- It returns now i7; the number of callers charged I4 (a caller that asks only for
-- extra and gets none does not count); for each key a byte with the length of its
-- state before the call (0: none or a log, 254: a value of another type, 255: not
-- a state of its kind); the report of each claim on a log; for each group with the
-- flag 8 a byte (1: refused); the written bytes of each key of a caller's limit;
-- and the states. decode.go reads it. A second value, which the server drops and
-- once.lua uses, says whether the last group without the flags 2 and 4 was admitted.
--
-- The value of a caller's bucket ends with a byte: the class of the limit that
-- wrote it. Under another rate or capacity the state can live longer; it then
-- counts as a new state in the class of the longer lifetime.
local spread = table.unpack or unpack -- Lua 5.4 has no global unpack
local read, write, call = struct.unpack, struct.pack, redis.call
local sub, rep, floor, min, max = string.sub, string.rep, math.floor, math.min, math.max
local UNIT, MOST, FORGET = 1e6, 9007199254740991, -9007199254740992
local LEAKY, WINDOW, COUNTER, LOG = 2, 3, 5, 6 -- numbers of the kinds; 1 is bucket

local keys, args = KEYS, ARGV[1]
local now, keep, nonLogKeys, limits, position = read('>i7i7I4I3', args)
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- step.go ---------------------------------------------------------------------

-- (a*b + plus)/c rounded down, and the remainder, where b*c and plus are below
-- 2^52: a = k*c + d. A quotient above 2^53 is inexact; no caller needs it exactly.
local function mulDiv(a, b, plus, c)
  local d = a % c
  local x = d * b + plus
  local rest = x % c
  return (a - d) / c * b + (x - rest) / c, rest
end

-- (a*b + plus)/c rounded up, under the same conditions; plus may be below 0.
local function mulDivUp(a, b, plus, c)
  local d = a % c
  local x = d * b + plus
  return (a - d) / c * b + (x + -x % c) / c
end

-- a*b/c rounded up, for a < 2^32 and b <= c < 2^46, seven bits of a at a time.
local function shareUp(a, b, c)
  if a * b <= MOST then return (a * b + -(a * b) % c) / c end
  local quotient, rest = 0, 0
  for place = 4, 0, -1 do
    local unit = 128 ^ place
    local digit = floor(a / unit) % 128
    local x = rest * 128 + digit * b
    rest = x % c
    quotient = quotient * 128 + (x - rest) / c
  end
  if rest > 0 then return quotient + 1 end
  return quotient
end

-- Each algorithm is a function that returns its steps: a call needs few of them,
-- and creating functions takes time. s is the state of a key, l a limit.
--   decode(s, l, value)     reads a value; returns false if it is corrupt
--   look(s, l)              computes the state at now without changing it:
--                           returns the room in units, and sets s.t, the
--                           step's own time
--   add(s, units)           charges; call it after look
--   refund(s, l, units, at) refunds, and returns whether that changed the state;
--                           call it after look
--   encode(s, l)            returns the value, and the time from which it equals
--                           a new state

-- bucket.go -------------------------------------------------------------------

local function decodeParts(s, l, value)
  local size = #value
  if size == 11 then
    s.frac, s.last, s.whole = 0, read('>I7I4', value)
  elseif size == 12 then
    s.last, s.whole, s.frac = read('>I7I4I1', value)
  elseif size == 14 then
    s.frac, s.last, s.whole = 0, read('>I7I7', value)
  elseif size > 14 and size < 22 then
    s.last, s.whole, s.frac = read('>I7I7I' .. size - 14, value)
  else
    return false
  end
  return s.last <= MOST and s.whole <= MOST and s.frac <= MOST
end

local function encodeParts(s)
  if s.whole < 4294967296 and s.frac < 256 then
    if s.frac == 0 then return write('>I7I4', s.last, s.whole) end
    return write('>I7I4I1', s.last, s.whole, s.frac)
  end
  if s.frac == 0 then return write('>I7I7', s.last, s.whole) end
  local bytes = 1
  while s.frac >= 256 ^ bytes do bytes = bytes + 1 end
  return write('>I7I7I' .. bytes, s.last, s.whole, s.frac)
end

local function bucket()
  local function look(s, l)
    local full = l.max * UNIT
    if not s.known then
      s.t, s.w, s.f = now, full, 0
      return l.max
    end
    local e = max(0, now - s.last)
    s.t = s.last + e
    if e >= l.fill then
      s.w, s.f = full, 0
      return l.max
    end
    local gained
    gained, s.f = mulDiv(e, l.p, min(s.frac, l.q - 1), l.q)
    s.w = s.whole + gained
    if s.w >= full then s.w, s.f = full, 0 end
    return floor(s.w / UNIT)
  end

  local function add(s, units)
    s.last, s.whole, s.frac = s.t, s.w - units * UNIT, s.f
  end

  local function refund(s, l, units, at)
    if not s.known then return false end
    if at == 0 then at = s.t end
    local full = l.max * UNIT
    local refunded = max(0, units * UNIT - mulDivUp(max(0, s.t - at), l.p, 0, l.q))
    s.last, s.whole, s.frac = s.t, s.w + refunded, s.f
    if s.whole >= full then s.whole, s.frac = full, 0 end
    return true
  end

  local function encode(s, l)
    return encodeParts(s), s.last + mulDivUp(l.max * UNIT - s.whole, l.q, -s.frac, l.p)
  end

  return {decode = decodeParts, look = look, add = add, refund = refund, encode = encode}
end

-- leaky.go --------------------------------------------------------------------

local function leaky()
  local function drain(s, l)
    local e = max(0, now - s.last)
    local lost, rest = mulDiv(e, l.p, 0, l.q)
    s.t, s.w, s.f = s.last + e, s.whole, min(s.frac, l.q - 1) - rest
    if s.f < 0 then
      s.f = s.f + l.q
      s.w = s.w - 1
    end
    s.w = s.w - lost
    if s.w < 0 then s.w, s.f = 0, 0 end
  end

  local function look(s, l)
    s.t, s.w, s.f = now, 0, 0
    if s.known then drain(s, l) end
    return floor((l.max * UNIT - s.w - min(s.f, 1)) / UNIT)
  end

  -- How many requests of this cost leave the bucket within most, one after the
  -- other; call it after look. No level with room for a request takes longer
  -- than fill.
  local function places(s, l, cost, most)
    local w, f = mulDiv(min(l.fill, max(0, most - (s.t - now))), l.p, 0, l.q)
    if s.f > f then w = w - 1 end
    if w < s.w then return 0 end
    return floor((w - s.w) / (cost * UNIT)) + 1
  end

  local function add(s, units)
    s.last, s.whole, s.frac = s.t, s.w + units * UNIT, s.f
  end

  local function refund() return false end

  local function encode(s, l)
    return encodeParts(s), s.last + min(MOST, mulDivUp(s.whole, l.q, s.frac, l.p))
  end

  return {decode = decodeParts, look = look, places = places, add = add, refund = refund, encode = encode}
end

-- fixed_window.go and quota.go ------------------------------------------------

local function window()
  local function decode(s, l, value)
    if #value ~= 11 then return false end
    s.start, s.count = read('>i7I4', value)
    return s.start <= MOST and s.start >= -MOST and s.count <= 1000000000
  end

  -- Days since 1 January 1970 of a date, and back.
  local function dayNumber(year, month, day)
    if month <= 2 then
      year = year - 1
      month = month + 12
    end
    local era = floor(year / 400)
    local yearOfEra = year - era * 400
    local dayOfYear = floor((153 * (month - 3) + 2) / 5) + day - 1
    return era * 146097 + yearOfEra * 365 + floor(yearOfEra / 4) - floor(yearOfEra / 100) + dayOfYear - 719468
  end

  local function monthOf(days)
    days = days + 719468
    local era = floor(days / 146097)
    local dayOfEra = days - era * 146097
    local yearOfEra = floor((dayOfEra - floor(dayOfEra / 1460) + floor(dayOfEra / 36524) - floor(dayOfEra / 146096)) / 365)
    local dayOfYear = dayOfEra - (365 * yearOfEra + floor(yearOfEra / 4) - floor(yearOfEra / 100))
    local month = floor((5 * dayOfYear + 2) / 153) + 3
    local year = yearOfEra + era * 400
    if month > 12 then return (year + 1) * 12 + month - 13 end
    return year * 12 + month - 1
  end

  local function monthStart(l, m)
    local first = dayNumber(floor(m / 12), m % 12 + 1, 1)
    local next = dayNumber(floor((m + 1) / 12), (m + 1) % 12 + 1, 1)
    return (first + min(l.day, next - first) - 1) * 86400 * UNIT + l.timeOfDay - l.offset
  end

  local function period(l, t)
    if l.kind == WINDOW then
      local start = t - (t - l.origin) % l.window
      return start, start + l.window
    end
    local m = monthOf(floor((t + l.offset) / (86400 * UNIT)))
    local start = monthStart(l, m)
    if start > t then return monthStart(l, m - 1), start end
    return start, monthStart(l, m + 1)
  end

  local function look(s, l)
    s.t = now
    if s.known then s.t = max(now, s.start) end
    s.from, s.to = period(l, s.t)
    s.n = 0
    if s.known and s.start == s.from then s.n = s.count end
    return l.max - s.n
  end

  local function add(s, units)
    s.start, s.count = s.from, s.n + units
  end

  local function refund(s, l, units, at)
    if at == 0 then at = s.t end
    if s.n == 0 or at < s.from or at >= s.to then return false end
    s.start, s.count = s.from, max(0, s.n - units)
    return true
  end

  local function encode(s, l)
    local gone = s.t
    if s.count > 0 then
      local _, to = period(l, s.start)
      gone = to
    end
    return write('>i7I4', s.start, s.count), gone
  end

  return {decode = decode, look = look, add = add, refund = refund, encode = encode}
end

-- sliding_counter.go ----------------------------------------------------------

local function counter()
  local function decode(s, l, value)
    s.size = l.buckets + 1
    if #value ~= 7 + 4 * s.size then return false end
    s.newest = read('>I7', value)
    s.ring = {read('>' .. rep('I4', s.size), value, 8)}
    return s.newest * l.width <= MOST
  end

  local function count(s, b)
    if b < 0 or b > s.newest or b <= s.newest - s.size then return 0 end
    return s.ring[b % s.size + 1]
  end

  local function look(s, l)
    local width = l.width
    if not s.known then
      s.size, s.newest, s.ring = l.buckets + 1, (now - now % width) / width, {}
      for i = 1, s.size do s.ring[i] = 0 end
    end
    s.t = max(now, s.newest * width)
    s.current = (s.t - s.t % width) / width
    local sum = 0
    for b = s.current - l.buckets + 1, s.current do sum = sum + count(s, b) end
    return l.max - sum - shareUp(count(s, s.current - l.buckets), (s.current + 1) * width - s.t, width)
  end

  local function add(s, units)
    for b = max(s.newest + 1, s.current - s.size + 1), s.current do s.ring[b % s.size + 1] = 0 end
    s.newest = s.current
    local place = s.current % s.size + 1
    s.ring[place] = s.ring[place] + units
  end

  local function refund(s, l, units, at)
    if at == 0 then at = s.t end
    local b = (at - at % l.width) / l.width
    if b <= s.current - s.size or b > s.current or count(s, b) == 0 then return false end
    local place = b % s.size + 1
    s.ring[place] = max(0, s.ring[place] - units)
    return true
  end

  local function encode(s, l)
    local gone = s.t
    for b = s.newest, s.newest - l.buckets, -1 do
      if count(s, b) > 0 then
        gone = max(gone, (b + s.size) * l.width)
        break
      end
    end
    return write('>I7' .. rep('I4', s.size), s.newest, spread(s.ring, 1, s.size)), gone
  end

  return {decode = decode, look = look, add = add, refund = refund, encode = encode}
end

-- sliding_log.go --------------------------------------------------------------

-- A decision reads only a part of a long log, so the script fetches blocks of
-- runs as it needs them, and a charge writes only the last run. The value, as in
-- state.go: the total before the first run I2, then runs, each with a time I7 and
-- the total up to it I2. Totals are modulo 2^16.
--   s.size            number of runs
--   s.newest, s.total time and total of the newest run
--   s.before          the total before the first run
--   s.value           the new value without the newest run; false while the runs
--                     on the server are unchanged
--   s.live            the first run that counts at s.t
--   s.gone            the total before that run
local RUN, BLOCK = 9, 64

local function log()
  -- The bytes of the value from index from to index to, counted from 0.
  local function bytes(s, from, to)
    if s.value then return sub(s.value, from + 1, to + 1) end
    return call('GETRANGE', s.key, from, to)
  end

  -- The bytes of the runs from number from to number to.
  local function runs(s, from, to) return bytes(s, RUN * from - 7, RUN * to + 1) end

  -- The time and the total of run i, then the next position, which is not used.
  local function run(s, i)
    if i == s.size then return s.newest, s.total end
    local place = (i - 1) % BLOCK
    local number = (i - 1 - place) / BLOCK
    local block = s.blocks[number]
    if not block then
      block = bytes(s, RUN * BLOCK * number, RUN * BLOCK * (number + 1) + 1)
      s.blocks[number] = block
    end
    return read('>I7I2', block, RUN * place + 3)
  end

  -- The state of a key, or nil if its value is not a log. If the key does not
  -- exist, its size is 0.
  local function open(key)
    local head = redis.pcall('GETRANGE', key, 0, 1 + RUN * BLOCK)
    if type(head) ~= 'string' then
      if string.find(head.err, 'WRONGTYPE', 1, true) then return nil end
      call('GETRANGE', key, 0, 0) -- fails again, so that the client gets the error
    end
    local bytes = #head
    local s = {
      known = bytes > 0, fault = false, dirty = false, class = 0, stored = false, t = 0, key = key, value = false, found = false,
      size = 0, before = 0, newest = 0, total = 0, live = 1, gone = 0, blocks = {[0] = head},
    }
    if bytes == 0 then return s end
    if bytes > RUN * BLOCK then bytes = call('STRLEN', key) end
    local size = (bytes - 2) / RUN
    if size < 1 or size % 1 > 0 then return nil end
    s.before = read('>I2', head)
    s.size = size + 1 -- so that run reads the newest
    local newest, total = run(s, size)
    s.size, s.newest, s.total = size, newest, total
    -- To check the order of all runs would take too long.
    local last, before = -1, s.before
    if size > 1 then last, before = run(s, size - 1) end
    local units = (total - before) % 65536
    if last >= newest or newest > MOST or units == 0 or units > 10000 or size > 2 and (run(s, 1)) >= last then return nil end
    return s
  end

  -- Finds the first run from number from on that is not before t. It is mostly near the front,
  -- whose block has been read.
  local function search(s, from, t)
    if from > s.size or (run(s, from)) >= t then return from end
    local low, high, step = from + 1, s.size + 1, 1
    while low + step < high and (run(s, low + step)) < t do low, step = low + step + 1, 2 * step end
    high = min(high, low + step)
    while low < high do
      local middle = floor((low + high) / 2)
      if (run(s, middle)) < t then low = middle + 1 else high = middle end
    end
    return low
  end

  -- The time at which the k-th counting unit was admitted.
  local function timeOfUnit(s, k)
    local time, first = run(s, s.live)
    if (first - s.gone) % 65536 >= k then return time end
    local low, high = s.live + 1, s.size
    while low < high do
      local middle = floor((low + high) / 2)
      local _, total = run(s, middle)
      if (total - s.gone) % 65536 < k then low = middle + 1 else high = middle end
    end
    return (run(s, low))
  end

  -- The number of units that count at t. The result is cached until a run is removed.
  local function count(s, l, t)
    if not s.known then return 0 end
    if s.found ~= t then
      s.found, s.live, s.gone = t, search(s, 1, t - l.window + 1), s.before
      if s.live > 1 then
        local _, gone = run(s, s.live - 1)
        s.gone = gone
      end
    end
    if s.live > s.size then return 0 end
    return (s.total - s.gone) % 65536
  end

  -- Runs that no longer count stay in the value until they outnumber the others,
  -- so that most charges write only one run.
  local function look(s, l)
    s.t = now
    if s.known then s.t = max(now, s.newest) end
    return l.max - count(s, l, s.t)
  end

  local function add(s, units)
    if not s.known then
      s.size, s.newest, s.total, s.before, s.value, s.blocks = 0, -1, 0, 0, '\0\0', {}
      s.found, s.live, s.gone = s.t, 1, 0
    end
    if s.newest < s.t then
      if s.size > 0 and s.value then
        s.value = s.value .. write('>I7I2', s.newest, s.total)
        s.blocks[floor((s.size - 1) / BLOCK)] = nil
      end
      s.size, s.newest = s.size + 1, s.t
    end
    s.total = (s.total + units) % 65536
  end

  -- The runs in text, with units subtracted from each total.
  local function lowered(text, units)
    local parts = {}
    for at = 1, #text, 100 * RUN do
      local n = min(100, (#text - at + 1) / RUN)
      local form = '>' .. rep('I7I2', n)
      local numbers = {read(form, text, at)}
      for i = 2, 2 * n, 2 do numbers[i] = (numbers[i] - units) % 65536 end
      parts[#parts + 1] = write(form, spread(numbers, 1, 2 * n))
    end
    return table.concat(parts)
  end

  -- Also removes the runs that no longer count: after the refund the newest time
  -- may be earlier, and they could count again.
  local function refund(s, l, units, at)
    if at == 0 then at = s.t end
    if not s.known or s.live > s.size then return false end
    local i = search(s, s.live, at)
    if i > s.size then return false end
    local time, total = run(s, i)
    if time ~= at then return false end
    local before = s.gone
    if i > s.live then
      local _, b = run(s, i - 1)
      before = b
    end
    local has = (total - before) % 65536
    local kept = ''
    if units < has then
      kept = write('>I7I2', at, (total - units) % 65536)
    else
      units = has
    end
    local behind = ''
    if i < s.size then behind = lowered(runs(s, i + 1, s.size - 1) .. write('>I7I2', s.newest, s.total), units) end
    local text = runs(s, s.live, i - 1) .. kept .. behind
    s.before, s.size, s.blocks, s.found, s.known = s.gone, #text / RUN, {}, false, text ~= ''
    if s.known then
      s.newest, s.total = read('>I7I2', text, #text - RUN + 1)
      s.value = write('>I2', s.before) .. sub(text, 1, -RUN - 1)
    end
    return true
  end

  -- Writes the log of a key. If the runs that no longer count outnumber the others,
  -- it drops them.
  local function save(s, key, ms)
    local newest = write('>I7I2', s.newest, s.total)
    local dead = s.live - 1
    if s.value then
      call('PSETEX', key, ms, s.value .. newest)
    elseif 2 * dead > s.size then
      call('PSETEX', key, ms, write('>I2', s.gone) .. runs(s, s.live, s.size - 1) .. newest)
    else
      call('SETRANGE', key, 2 + RUN * (s.size - 1), newest)
      call('PEXPIRE', key, ms)
    end
  end

  -- The report of a claim on a log at its time t; see logBytes in decode.go.
  local function report(s, l, t, allowed, granted, cost)
    local counted = 0
    if s.known then counted = count(s, l, max(t, s.newest)) end
    local newest, next, retry = 0, 0, 0
    if counted > 0 then
      newest = s.newest
      next = timeOfUnit(s, counted + max(0, l.max - counted) + 1 - l.max)
      if not allowed and cost <= l.max then retry = timeOfUnit(s, counted + cost - l.max) end
    end
    return write('>BI7I4I4I7I7I7', allowed and 1 or 0, t, counted, granted, newest, next, retry)
  end

  return {open = open, look = look, add = add, refund = refund, save = save, report = report}
end

-- The limits ------------------------------------------------------------------

local algorithms = {bucket, leaky, window, window, counter, log}
local made, known, numbers = {}, {}, position

local function stepsOf(kind)
  local steps = made[kind] or algorithms[kind]()
  made[kind] = steps
  return steps
end

local function limitOf(index)
  local l = known[index]
  if l then return l end
  local kind, most, a, b, c = read('>Bi7i7i7i7', args, numbers + 36 * index)
  local class = floor(kind / 16)
  kind = kind % 16
  l = {kind = kind, class = class, max = most, steps = stepsOf(kind)}
  if kind <= LEAKY then
    l.p, l.q, l.fill = a, b, c
  elseif kind == WINDOW or kind == LOG then
    l.window, l.origin = a, b
  elseif kind == COUNTER then
    l.width, l.buckets = a + 0.0, b
  else
    l.offset, l.day, l.timeOfDay = a, b, c
  end
  known[index] = l
  return l
end

-- The states of the keys ------------------------------------------------------

local old, sizes, found, states, written, callers = {}, {}, {}, {}, {}, false
for from = 1, nonLogKeys, 1000 do
  for i, value in ipairs(call('MGET', spread(keys, from, min(nonLogKeys, from + 999)))) do
    old[from + i - 1] = value
  end
end

-- All fields are set at once, as for claims below, because a growing table is slow.
local function fresh(fault)
  return {known = false, fault = fault, dirty = false, class = 0, stored = false, t = 0, w = 0, f = 0, last = 0, whole = 0, frac = 0}
end

-- The state of a key, decoded under the limit of the first claim on it.
local function stateOf(i, l)
  local s = states[i]
  if s then return s end
  local value, sound, class = old[i], true, l.class
  sizes[i], found[i] = '\0', ''
  if l.kind == LOG then
    s = l.steps.open(keys[i])
    sound, old[i] = s, s and s.known
  else
    s = fresh(false)
    if value and l.class > 0 and l.kind <= LEAKY then
      class, value = string.byte(value, #value) or 0, sub(value, 1, -2)
    end
    if value then sound = l.steps.decode(s, l, value) end
  end
  if not sound then
    s = fresh(true) -- without the fields that decode set
    sizes[i], old[i] = '\255', true
    if l.kind == LOG and call('TYPE', keys[i]).ok ~= 'string' then sizes[i] = '\254' end
  elseif old[i] then
    s.known = true
    if value then sizes[i], found[i] = string.char(#value), value end
  else
    local holds = call('TYPE', keys[i]).ok
    s.fault = holds ~= 'none'
    if s.fault then old[i], sizes[i] = true, holds == 'string' and '\255' or '\254' end
  end
  if l.class > 0 then
    s.class, s.stored, callers = class, sound and old[i] and class, true
    written[i] = write('>Bi7i7I4I4', 0, 0, 0, 0, 0)
  end
  states[i] = s
  return s
end

local function save(i, s, l)
  local value, gone = '', now
  if s.known then
    if l.kind == LOG then gone = s.newest + l.window else value, gone = l.steps.encode(s, l) end
  end
  -- Expiries are in whole milliseconds: the end is rounded up and now is rounded
  -- down. One more is added, because since Redis 7.2 servers count from the start
  -- of the script.
  local ms = (gone + -gone % 1000) / 1000 - (now - now % 1000) / 1000 + 1 + keep
  local outlives = l.kind <= LEAKY
  if outlives then ms = ms + 15000 end -- as in plain.lua
  if not s.known or gone <= now and keep == 0 and not outlives then
    if old[i] then call('DEL', keys[i]) end
    return
  end
  local left, bytes = 0, 0
  if s.stored == l.class then -- a caller's key whose value has the same class
    left, bytes = max(0, call('PTTL', keys[i])), l.kind == LOG and call('STRLEN', keys[i]) or #old[i]
  end
  if l.kind == LOG then
    l.steps.save(s, keys[i], ms)
  else
    if l.class > 0 and outlives then value = value .. string.char(l.class) end
    call('PSETEX', keys[i], ms, value)
  end
  if l.class > 0 then
    written[i] = write('>Bi7i7I4I4', l.class, left, ms, bytes, value ~= '' and #value or call('STRLEN', keys[i]))
  end
end

-- The groups ------------------------------------------------------------------

local charged, logs, refusals, leaderAdmitted = 0, {}, {}, true

-- Charges a claim of an admitted group, and returns the extra units granted.
local function charge(c, s, l)
  if c.cost == FORGET then
    s.known, s.fault, s.dirty, s.t = false, false, l, now
  elseif c.cost < 0 then
    if l.steps.refund(s, l, -c.cost, c.at) then s.dirty, s.class = l, l.class end
  else
    local granted = min(c.extra, c.room - c.fit * c.cost)
    local units = c.fit * c.cost + granted
    if units > 0 then
      l.steps.add(s, units)
      s.known, s.dirty, s.class = true, l, l.class
    end
    return granted
  end
  return 0
end

-- Whether all claims of a group fit, or one of each set of alternatives.
local function admits(claims)
  local sets
  for i = 1, #claims do
    local c = claims[i]
    if c.any > 0 then
      sets = sets or {}
      sets[c.any] = sets[c.any] or c.fit > 0
    elseif c.fit == 0 then
      return false
    end
  end
  for _, one in pairs(sets or {}) do
    if not one then return false end
  end
  return true
end

-- Computes for each claim of a group how many of its callers fit.
local function lookAt(claims)
  for i = 1, #claims do
    local c = claims[i]
    c.room, c.fit = max(0, c.l.steps.look(c.s, c.l)), c.times
    if c.cost > 0 then
      c.fit = min(c.times, floor(c.room / c.cost))
      if c.fit > 0 and c.l.kind == LEAKY and c.at < MOST then
        c.fit = min(c.fit, c.l.steps.places(c.s, c.l, c.cost, c.at))
      end
    end
  end
end

-- Whether the states of all claims are valid. A key can be forgotten whatever its
-- value is.
local function sound(claims)
  for i = 1, #claims do
    if claims[i].s.fault and claims[i].cost ~= FORGET then return false end
  end
  return true
end

-- Decides the claims of a group; flags 2: following, 4: dry. A bounded group is
-- refused if a claim that may not create a state would create one, or would move
-- its state to a class of longer lifetimes.
local function decide(claims, flags, bounded)
  local readable, admitted, charging = sound(claims), false, false
  if readable then
    lookAt(claims)
    admitted = admits(claims)
    charging = admitted and (flags == 0 or flags == 2 and leaderAdmitted)
  end
  if bounded then
    local refused = false
    for i = 1, charging and #claims or 0 do
      local c = claims[i]
      if c.bounded and c.fit > 0 and c.cost ~= FORGET then
        local charges = c.cost + c.extra > 0
        if c.s.known then charges = c.s.class < c.l.class and (charges or c.cost < 0) end
        refused = refused or charges
      end
    end
    refusals[#refusals + 1] = refused and '\1' or '\0'
    if refused then readable, admitted, charging = false, false, false end
  end
  for i = 1, #claims do
    local c, granted = claims[i], 0
    if charging and c.fit > 0 then
      granted = charge(c, c.s, c.l)
      if granted > 0 or c.cost ~= 0 or c.extra == 0 then charged = charged + c.fit end
    end
    if c.l.kind == LOG then
      logs[#logs + 1] = readable and c.l.steps.report(c.s, c.l, c.s.t, c.fit > 0, granted, c.cost) or rep('\0', 37)
    end
  end
  if flags == 0 then leaderAdmitted = admitted end
end

local claims, n, anyBounded = {}, 0, false
position = numbers + 36 * limits
while position <= #args do
  local key, index, cost, at, extra, times, any, flags, next = read('>I4I3i7i7I4I4BB', args, position)
  local l = limitOf(index)
  local bounded = flags >= 8
  if bounded then flags, anyBounded = flags - 8, true end
  n = n + 1
  claims[n] = {s = stateOf(key + 1, l), l = l, cost = cost, at = at, extra = extra, times = times, any = any, room = 0, fit = 0, bounded = bounded}
  if flags % 2 == 1 then
    decide(claims, flags - 1, anyBounded)
    for i = n, 1, -1 do claims[i] = nil end
    n, anyBounded = 0, false
  end
  position = next
end

for i, s in ipairs(states) do
  if s.dirty then save(i, s, s.dirty) end
end
local concat = table.concat
local reports = ''
if callers then
  for i = 1, #keys do reports = reports .. (written[i] or '') end
end
return write('>i7I4', now, charged) .. concat(sizes) .. concat(logs) .. concat(refusals) .. reports .. concat(found), leaderAdmitted
