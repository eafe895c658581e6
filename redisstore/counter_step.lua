-- The step of a sliding window counter of one bucket and the one before, a
-- translation of stepTwoCounters in sliding_counter.go in package stint. It is
-- inserted into plain.lua and one_counter.lua at the line that names it, like
-- bucket_step.lua.
--
-- Input: key, its state (false: none), now, start, the limit's most and width (the
-- length of a bucket), cost, times (the number of callers; as many as fit are
-- charged) and wanted (cost * times).
-- Output: size and fit, as in bucket_step.lua.
local size, bucket, left = 0, (now - now % width) / width, width - now % width
local count, before = 0, 0 -- of this bucket, and of the one before
if state then
  size = #state
  local newest, even, odd = 2 ^ 53, 0, 0
  if size == 15 then newest, even, odd = read('>I7I4I4', state) end
  if newest * width >= 2 ^ 53 then
    size, state = 255, ''
  else
    if newest > bucket then bucket, left = newest, width end -- the clock went back
    if newest % 2 > 0 then even, odd = odd, even end
    if newest == bucket then
      count, before = even, odd
    elseif newest == bucket - 1 then
      before = even
    end
  end
end

-- The part of before that the window covers, rounded up: seven bits of before at a
-- time if the product is no exact double.
local part = before * left
if bucket == 0 then
  part = 0 -- no bucket is before the first
elseif part < 2 ^ 53 then
  part = (part + -part % width) / width
else
  local rest, unit = 0, 128 ^ 4
  part = 0
  for _ = 1, 5 do
    local x = rest * 128 + (before - before % unit) / unit % 128 * left
    rest, unit = x % width, unit / 128
    part = part * 128 + (x - rest) / width
  end
  if rest > 0 then part = part + 1 end
end
local room, fit = most - count - part, times
if room < 0 then room = 0 end -- the limit was lowered
if wanted > room then fit = (room - room % cost) / cost end
if size == 255 then
  fit = 0
elseif fit > 0 and cost > 0 then
  local even, odd, gone = count + fit * cost, before, (bucket + 2) * width
  if bucket % 2 > 0 then even, odd = odd, even end
  local value, ms = write('>I7I4I4', bucket, even, odd), (gone + -gone % 1000) / 1000 - start
  if state then
    -- A number in place of the text would take longer.
    call('PSETEX', key, text('%d', ms), value)
  elseif not call('SET', key, value, 'PX', text('%d', ms), 'NX') then
    size, fit = 254, 0
  end
elseif not state and call('TYPE', key).ok ~= 'none' then
  size, fit = 254, 0
end
