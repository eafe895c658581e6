-- Makes operations on rows, each of them atomically and without the others.
--
-- KEYS[i]  for i > 1: the row of operation i
-- ARGV[i]  for i > 1: the operation, one of
--            'r'  read
--            'p'  prepare: ballot (14)
--            'i'  prepare if the row has no parts, and read otherwise: ballot (14)
--            'a'  accept: ballot (14), length (1) and text of the time in milliseconds until
--                 which the row is kept, and the row that is stored if the one that is there
--                 has no greater class
--
-- A ballot is a time and an id, 7 bytes each. A row is the version of this format (1), its
-- promise (14), the latest expiry of its parts (7), its greatest class (1), and its parts by
-- ascending class. A part is its class (1), ballot (14), expiry (7), length (4) and data.
--
-- The reply has an element for each operation: how it ended, and then
--   'o'  done           the row as it was, of read and prepare; empty: there is no row
--   'n'  refused        the same; after accept, the row without its parts
--   'c'  the row cannot be read
--   'f'  the server refuses a command   the text of its error
--
-- The time of a script is that of its calls and conversions, so a write by a kept promise, the
-- most frequent operation, compares and copies texts alone.
local VERSION, HEADER, PART = 1, 23, 26
local MAX_ID = 9007199254740991
local max, text = math.max, string.format
local floor = max(read('>I7', mark, 16) + slack, now - slack)

-- Returns how long a row is kept.
local function untilOf(expires, t)
  return text('%.0f', max(1, math.ceil((max(expires, t) + slack) / 1000)))
end

-- Writes a row. It returns what the operation returns.
local function save(key, row, millis, done)
  local reply = pcall('SET', key, row, 'PXAT', millis)
  return reply.err and 'f' .. reply.err or done
end

-- Returns the parts of a row above a class, and their latest expiry; nil if the row cannot
-- be read.
local function above(row, class)
  local at, from, latest = HEADER + 1, #row + 1, 0
  while at + PART - 1 <= #row do
    local c, _, _, expires, length = read('>BI7I7I7I4', row, at)
    if c > class then
      if from > at then from = at end
      latest = max(latest, expires)
    end
    at = at + PART + length
  end
  if at ~= #row + 1 then return nil end
  return sub(row, from), latest
end

-- Compares the ballot of an operation with the promise of a row: below 0, 0 or above 0.
local function compare(op, row)
  local t, id = read('>I7I7', op, 2)
  local promiseT, promiseID = floor, MAX_ID
  if row then promiseT, promiseID = read('>I7I7', row, 2) end
  if t == promiseT then return id - promiseID end
  return t - promiseT
end

local function prepare(key, op, row)
  if compare(op, row) <= 0 then return 'n' .. (row or '') end
  local rest, expires = '\0\0\0\0\0\0\0\0', 0
  if row then rest, expires = sub(row, 16), read('>I7', row, 16) end
  local t = read('>I7', op, 2)
  return save(key, '\1' .. sub(op, 2, 15) .. rest, untilOf(expires, t), 'o' .. (row or ''))
end

local function accept(key, op, row)
  if not (row and sub(row, 2, 15) == sub(op, 2, 15)) and compare(op, row) < 0 then
    return 'n' .. (row and sub(row, 1, HEADER) or '')
  end
  local at = 17 + byte(op, 16)
  local stored, millis = sub(op, at), sub(op, 17, at - 1)
  if row and byte(row, HEADER) > byte(stored, HEADER) and #row > HEADER then
    local kept, latest = above(row, byte(stored, HEADER))
    if not kept then return 'c' end
    local _, t, _, expires = read('>BI7I7I7', stored)
    expires = max(expires, latest)
    stored = sub(stored, 1, 15) .. write('>I7', expires) .. sub(row, HEADER, HEADER) .. sub(stored, HEADER + 1) .. kept
    millis = untilOf(expires, t)
  end
  return save(key, stored, millis, 'o')
end

local function operate(key, op)
  local row = pcall('GET', key)
  if row and type(row) == 'table' then return 'f' .. row.err end
  if row and (#row < HEADER or byte(row) ~= VERSION) then return 'c' end
  local verb = byte(op)
  if verb == 97 then return accept(key, op, row) end
  if verb == 114 or verb == 105 and row and #row > HEADER then return 'o' .. (row or '') end
  return prepare(key, op, row)
end

local reply = {about}
for i = 2, #ARGV do reply[i] = operate(KEYS[i], ARGV[i]) end
return reply
