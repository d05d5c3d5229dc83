-- Removes tombstones, the oldest first. KEYS[1]: prefix. ARGV: first timestamp to keep as 8 bytes, limit.
-- Returns the number of tombstones.
local prefix = KEYS[1]
local index, tombstones = prefix .. 'index', prefix .. 'tombstones'
local found = redis.call('ZRANGEBYLEX', tombstones, '-', '(' .. ARGV[1], 'LIMIT', 0, ARGV[2])
for _, tombstone in ipairs(found) do
    local key = string.sub(tombstone, 9)
    redis.call('DEL', prefix .. 'cell:' .. key)
    redis.call('ZREM', index, key)
    redis.call('ZREM', tombstones, tombstone)
end
return #found
