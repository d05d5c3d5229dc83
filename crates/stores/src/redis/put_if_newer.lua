-- Writes each cell that is newer than the one of its key. KEYS[1]: prefix. ARGV: key, cell, key, cell, ..
-- A cell is 8 bytes of timestamp, the largest first, 1 byte (0: tombstone), and the value.
local prefix = KEYS[1]
local index, tombstones, highest = prefix .. 'index', prefix .. 'tombstones', prefix .. 'highest'

-- Lua compares strings by the server's locale, so numbers are compared.
local function above(one, other)
    local high, low = struct.unpack('>I4I4', one)
    local other_high, other_low = struct.unpack('>I4I4', other)
    return high > other_high or (high == other_high and low > other_low)
end

local before = redis.call('GET', highest) or string.rep('\0', 8)
local newest = before
for at = 1, #ARGV, 2 do
    local key, cell = ARGV[at], ARGV[at + 1]
    local name = prefix .. 'cell:' .. key
    local old = redis.call('GETRANGE', name, 0, 8)
    if old == '' or above(cell, old) then
        redis.call('SET', name, cell)
        if old == '' then
            redis.call('ZADD', index, 0, key)
        elseif string.byte(old, 9) == 0 then
            redis.call('ZREM', tombstones, string.sub(old, 1, 8) .. key)
        end
        if string.byte(cell, 9) == 0 then
            redis.call('ZADD', tombstones, 0, string.sub(cell, 1, 8) .. key)
        end
        if above(cell, newest) then
            newest = string.sub(cell, 1, 8)
        end
    end
end
if newest ~= before then
    redis.call('SET', highest, newest)
end
return redis.status_reply('OK')
