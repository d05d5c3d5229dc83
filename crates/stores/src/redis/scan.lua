-- Returns key, cell, key, cell, .. of a range. KEYS[1]: prefix. ARGV: command, its two ends, limit.
local prefix = KEYS[1]
local keys = redis.call(ARGV[1], prefix .. 'index', ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])
local answer = {}
for at, key in ipairs(keys) do
    answer[2 * at - 1] = key
    answer[2 * at] = redis.call('GET', prefix .. 'cell:' .. key)
end
return answer
