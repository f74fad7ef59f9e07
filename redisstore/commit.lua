-- Makes one commit of a session.
--
-- KEYS: head, messages, meta, commits
-- ARGV: 1 the revision that the head must have; a line feed and what names this
--         call, all its tries, if there must be no session
--       2 the new revision, '' to remove the session
--       3 how many messages stay
--       4 milliseconds to live, '' for ever
--       5 Meta: '-' leaves it, '+' and the text sets it, '+' alone removes it
--       6 the rest of the head; what names this call, if it removes the session
--       then the messages
--
-- Returns '' if the commit was made, now or by an earlier try, or what is the
-- matter. All reasons to refuse come before the first write, and the first
-- write is one that a full server refuses.

local head, messages, meta, commits = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token = ARGV[2] == '' and ARGV[6] or ARGV[2]
local absent = string.sub(ARGV[1], 1, 1) == '\n'
local cur = redis.pcall('GET', head)
local count = redis.pcall('LLEN', messages)
if type(cur) == 'table' or type(count) == 'table' then return 'other' end
local withMeta, mortal = '0', '0'
if not cur then
  if redis.call('LPOS', commits, token, 'RANK', -1) then return '' end
  if not absent or redis.call('LPOS', commits, ARGV[1], 'RANK', -1) then return 'conflict' end
  if count ~= 0 then return 'part' end
else
  if string.sub(cur, 1, 2) ~= '1\n' then
    return string.find(cur, '^%d+\n') and 'newer' or 'other'
  end
  local i = string.find(cur, '\n', 3, true)
  local j = i and string.find(cur, '\n', i + 1, true)
  if not j then return 'other' end
  local rev = string.sub(cur, 3, i - 1)
  if rev == ARGV[2] then return '' end
  if rev ~= ARGV[1] then
    if redis.call('LPOS', commits, token, 'RANK', -1) then return '' end
    if absent then -- an earlier try of it may yet come, when there is no session any more
      redis.call('RPUSH', commits, ARGV[1])
      redis.call('PEXPIRE', commits, 600000)
    end
    return 'conflict'
  end
  if string.sub(cur, i + 1, j - 1) ~= tostring(count) then return 'part' end
  withMeta, mortal = string.sub(cur, j + 1, j + 1), string.sub(cur, j + 2, j + 2)
end

local keep, life = tonumber(ARGV[3]), ARGV[4]
if ARGV[2] == '' then
  if not cur then return '' end
  redis.call('UNLINK', head, messages, meta)
else
  if ARGV[5] ~= '-' then withMeta = ARGV[5] == '+' and '0' or '1' end
  local text = '1\n' .. ARGV[2] .. '\n' .. (keep + #ARGV - 6) .. '\n' .. withMeta .. (life == '' and '0\n' or '1\n') .. ARGV[6]
  if life == '' then
    redis.call('SET', head, text)
  else
    redis.call('SET', head, text, 'PX', life)
  end
end
if redis.call('RPUSH', commits, token) > 4096 then redis.call('LTRIM', commits, -2048, -1) end
redis.call('PEXPIRE', commits, 600000)
if ARGV[2] == '' then return '' end

if ARGV[5] == '+' then
  redis.call('UNLINK', meta)
elseif ARGV[5] ~= '-' then
  redis.call('SET', meta, string.sub(ARGV[5], 2))
end
if keep == 0 and count > 0 then
  redis.call('UNLINK', messages)
elseif keep < count then
  redis.call('LTRIM', messages, 0, keep - 1)
end
if #ARGV == 7 then
  redis.call('RPUSH', messages, ARGV[7])
else
  for i = 7, #ARGV, 500 do
    redis.call('RPUSH', messages, unpack(ARGV, i, math.min(i + 499, #ARGV)))
  end
end
if life ~= '' then
  redis.call('PEXPIRE', messages, life)
  if withMeta == '1' then redis.call('PEXPIRE', meta, life) end
elseif mortal == '1' then
  redis.call('PERSIST', messages)
  redis.call('PERSIST', meta)
end
return ''
