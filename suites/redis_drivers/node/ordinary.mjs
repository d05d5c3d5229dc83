// ioredis in ordinary use: automatic pipelines, MULTI and EXEC, WATCH, a block of BEGIN and COMMIT, a stream over SCAN.
import assert from "node:assert";
import Redis from "ioredis";

const port = Number(process.argv[2]);
const client = new Redis({ port, enableAutoPipelining: true });
assert.equal(await client.set("io:k", "v"), "OK");
assert.equal(await client.get("io:k"), "v");
assert.equal(await client.set("io:k", "w", "NX"), null);
assert.deepEqual(await client.getBuffer("io:k"), Buffer.from("v"));
const counted = await Promise.all(Array.from({ length: 100 }, () => client.incr("io:n")));
assert.deepEqual(counted.sort((a, b) => a - b).at(-1), 100);
assert.deepEqual(await client.multi().incr("io:n").get("io:n").exec(), [[null, 101], [null, "101"]]);
await assert.rejects(client.set("io:k", "v", "EX", 10), /no key expires here/);

const watcher = new Redis({ port });
await watcher.watch("io:k");
await client.set("io:k", "changed");
assert.equal(await watcher.multi().set("io:k", "lost").exec(), null);
assert.equal(await client.get("io:k"), "changed");

const [one, other] = [new Redis({ port }), new Redis({ port })];
for (const each of [one, other]) {
    assert.equal(await each.call("BEGIN"), "OK");
    await each.set("io:contended", "x");
}
assert.equal(await one.call("COMMIT"), "OK");
await assert.rejects(other.call("COMMIT"), /^ReplyError: CONFLICT /);
assert.deepEqual(await client.call("RANGE", "io:k", "io:l"), ["io:k", "changed"]);

const found = [];
for await (const keys of client.scanStream({ match: "io:*", count: 2 })) found.push(...keys);
assert.deepEqual(found.sort(), ["io:contended", "io:k", "io:n"]);
for (const each of [client, watcher, one, other]) await each.quit();
console.log("ioredis: pipelines, MULTI, WATCH, blocks, SCAN");
