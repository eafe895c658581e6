-- The step of a bucket (token_bucket, gcra), a translation of bucket.go in package
-- stint. It is inserted into plain.lua and one_bucket.lua at the line that names it,
-- because a function call would cost as much as the arithmetic.
--
-- Input: key, its state (false: none), now, start, the limit's p, q, fill and full,
-- cost, need (cost in micro-units), times (the number of callers; as many as fit
-- are charged) and wanted (need * times).
-- Output: size, the length of the state before the call (0: none, 254: a value of
-- another type, 255: not a state of a bucket, and state is ''), and fit, the
-- number of callers charged.
local size, last, whole, frac = 0, now, full, 0
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
    last = 2 ^ 53
  end
  if last >= 2 ^ 53 or whole >= 2 ^ 53 or frac >= 2 ^ 53 then
    size, state = 255, ''
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
    -- A number in place of the text would take longer.
    call('PSETEX', key, text('%d', ms), value)
  elseif not call('SET', key, value, 'PX', text('%d', ms), 'NX') then
    size, fit = 254, 0
  end
elseif not state and call('TYPE', key).ok ~= 'none' then
  size, fit = 254, 0
end
