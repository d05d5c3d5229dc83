# Ordinary use of redis-py: a pool, pipelines as MULTI and EXEC, WATCH with repetition, scans, blocks of BEGIN and COMMIT.
import sys
import threading

import redis

port = int(sys.argv[1])
client = redis.Redis(port=port, decode_responses=True)
assert client.ping()
assert client.set("k", "v") and client.get("k") == "v"
assert client.set("k", "w", nx=True) is None and client.set("k", "w", xx=True, get=True) == "v"
assert client.mset({"a": 1, "b": 2}) and client.mget("a", "b", "none") == ["1", "2", None]
assert client.incrby("a", 5) == 6 and client.decr("a") == 5 and client.append("k", "x") == 2
assert client.exists("a", "b", "none") == 2 and client.delete("a", "none") == 1
assert client.type("b") == "string" and client.ttl("b") == -1 and client.dbsize() == 2
assert sorted(client.scan_iter(count=1)) == ["b", "k"] and client.keys("b*") == ["b"]
assert client.info()["redis_mode"] == "standalone"

with client.pipeline(transaction=True) as pipe:
    assert pipe.set("x", 1).incr("x").get("x").execute() == [True, 2, "2"]


def transfer(pipe):
    left, right = int(pipe.get("left")), int(pipe.get("right"))
    pipe.multi()
    pipe.set("left", left - 1)
    pipe.set("right", right + 1)


client.mset({"left": 100, "right": 0})
threads = [
    threading.Thread(target=lambda: [client.transaction(transfer, "left", "right") for _ in range(10)])
    for _ in range(4)
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert client.mget("left", "right") == ["60", "40"]

connection = redis.Redis(port=port, single_connection_client=True, decode_responses=True)
other = redis.Redis(port=port, single_connection_client=True, decode_responses=True)
for each in (connection, other):
    each.execute_command("BEGIN")
    each.set("contended", "x")
connection.execute_command("COMMIT")
try:
    other.execute_command("COMMIT")
    raise AssertionError("a conflict is missing")
except redis.ResponseError as error:
    assert str(error).startswith("CONFLICT "), error
assert connection.execute_command("RANGE", "left", "m") == ["left", "60"]
print("done")
