// node-postgres in ordinary use: every answer is printed, and must be what one plain server says. The address is the argument.
import pg from "pg";
import Cursor from "pg-cursor";
import { from as copyFrom, to as copyTo } from "pg-copy-streams";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

const connectionString = process.argv[2];
const say = (what, answer) => console.log(`${what}: ${JSON.stringify(answer)}`);
const connect = async () => {
  const client = new pg.Client({ connectionString });
  await client.connect();
  return client;
};
// What a statement that must fail says.
const refused = async (what, promise) => {
  try {
    await promise;
    say(what, "NOT REFUSED");
  } catch (error) {
    say(what, [error.code, error.message, error.constraint, error.position]);
  }
};

const client = await connect();
await client.query("DROP TABLE IF EXISTS drv_node; CREATE TABLE drv_node (id int PRIMARY KEY, v text, n int DEFAULT 0)");
say("several statements in one query", (await client.query("SELECT 1 AS a; SELECT 2 AS b")).map((result) => result.rows));

// Types, by text and by binary results.
const all = `SELECT $1::numeric AS numeric, $2::timestamptz AS timestamptz, $3::jsonb AS jsonb, $4::int[] AS ints,
  $5::text[] AS texts, $6::bytea AS bytea, $7::bool AS bool, $8::int8 AS int8, $9::text AS nothing`;
const values = ["12345678901234567890.0123456789", new Date("2024-02-29T12:34:56.789Z"), { a: [1, null, "ä"] }, [1, null, 3],
  ["a,b", 'c"d', null, "NULL"], Buffer.from([0, 1, 254, 255, 92]), true, "9223372036854775807", null];
say("types", (await client.query(all, values)).rows);
say("types, binary", (await client.query({ text: "SELECT $1::int4 AS a, $2::bool AS b, $3::text AS c", values: [7, true, "x"], binary: true })).rows);

// Unnamed and named statements, and each write read at once, here and on another connection.
const other = await connect();
await client.query("INSERT INTO drv_node (id, v) SELECT i, 'v' || i FROM generate_series(1, 100) i");
let behind = 0;
for (let i = 1; i <= 150; i++) {
  await client.query({ name: "write", text: "UPDATE drv_node SET n = $1 WHERE id = 7", values: [i] });
  const here = await client.query({ name: "read", text: "SELECT n FROM drv_node WHERE id = $1", values: [7] });
  const there = await other.query("SELECT n FROM drv_node WHERE id = $1", [7]);
  if (here.rows[0].n !== i || there.rows[0].n !== i) behind++;
}
say("reads that missed a write", behind);
await refused("one name, two texts", client.query({ name: "read", text: "SELECT 1" }));
say("the same name elsewhere", (await other.query({ name: "read", text: "SELECT $1::text AS own", values: ["own"] })).rows);
say("queued without waiting", (await Promise.all([1, 2, 3, 4, 5].map((id) => client.query("SELECT v FROM drv_node WHERE id = $1", [id])))).map((result) => result.rows[0].v));

// Errors outside blocks and inside, savepoints.
await refused("duplicate key", client.query("INSERT INTO drv_node VALUES (7)"));
await refused("no such table", client.query("SELECT * FROM drv_nothing"));
await refused("bad parameter", client.query("SELECT $1::int", ["x"]));
await client.query("BEGIN");
await client.query("UPDATE drv_node SET v = 'own' WHERE id = 1");
await client.query("SAVEPOINT s");
await refused("division by zero in a block", client.query("SELECT 1 / $1::int", [0]));
await refused("the block has failed", client.query({ name: "read", text: "SELECT n FROM drv_node WHERE id = $1", values: [7] }));
await client.query("ROLLBACK TO s");
say("behind the savepoint", (await client.query("SELECT v FROM drv_node WHERE id = 1")).rows);
say("not yet seen elsewhere", (await other.query("SELECT v FROM drv_node WHERE id = 1")).rows);
await client.query("COMMIT");
say("seen elsewhere", (await other.query("SELECT v FROM drv_node WHERE id = 1")).rows);
await client.query("BEGIN; DELETE FROM drv_node; ROLLBACK");
say("rolled back", (await client.query("SELECT count(*) FROM drv_node")).rows);

// COPY in and out; a cursor, read in parts.
await pipeline(Readable.from(Array.from({ length: 1000 }, (_, i) => `${i + 1000}\tcopied\t1\n`)), client.query(copyFrom("COPY drv_node FROM STDIN")));
let out = "";
for await (const part of client.query(copyTo("COPY (SELECT id FROM drv_node WHERE id >= 1000 ORDER BY id) TO STDOUT"))) out += part;
say("copied in and out", [out.split("\n").length, out.slice(0, 10)]);
await refused("bad COPY", pipeline(Readable.from(["x\ty\tz\n"]), client.query(copyFrom("COPY drv_node FROM STDIN"))));
const cursor = client.query(new Cursor("SELECT id FROM drv_node WHERE id >= $1 ORDER BY id", [1000]));
say("cursor", [(await cursor.read(3)).map((row) => row.id), (await cursor.read(5000)).length]);
await cursor.close();

// Cancel: by a request with the key that the client was given, which node-postgres has; and the timeout of a statement.
const sleeping = client.query("SELECT pg_sleep(30)");
const timer = setTimeout(() => new pg.Client({ connectionString }).cancel(client, client.activeQuery ?? client._getActiveQuery()), 300);
await refused("cancelled", sleeping);
clearTimeout(timer);
await client.query("SET statement_timeout = '200ms'");
await refused("statement_timeout", client.query("SELECT pg_sleep(30)"));
await client.query("RESET statement_timeout");
await other.query("SET search_path = pg_catalog");
say("settings stay with their session", [(await client.query("SHOW search_path")).rows, (await other.query("SHOW search_path")).rows]);

// LISTEN and NOTIFY.
const heard = new Promise((resolve) => other.once("notification", (message) => resolve([message.channel, message.payload])));
await other.query("LISTEN drv");
await client.query("SELECT pg_notify($1, $2)", ["drv", "hello"]);
say("notified", await heard);
await other.end();

// A pool of eight, all busy: transfers between rows.
const pool = new pg.Pool({ connectionString, max: 8 });
await Promise.all(Array.from({ length: 8 }, async (_, worker) => {
  for (let i = 0; i < 20; i++) {
    const one = await pool.connect();
    await one.query("BEGIN");
    await one.query({ name: "transfer", text: "UPDATE drv_node SET n = n + $2 WHERE id = $1", values: [50 + worker, 1] });
    await one.query({ name: "transfer", text: "UPDATE drv_node SET n = n + $2 WHERE id = $1", values: [60 + worker, -1] });
    await one.query("COMMIT");
    one.release();
    const { rows } = await pool.query("SELECT sum(n)::int AS sum FROM drv_node WHERE id BETWEEN 50 AND 69");
    if (rows[0].sum !== 0) say("sum", rows[0].sum);
  }
}));
say("transferred", (await pool.query("SELECT array_agg(n ORDER BY id) AS n FROM drv_node WHERE id BETWEEN 50 AND 69")).rows);
await pool.end();
await client.end();
