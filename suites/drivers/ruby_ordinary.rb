# ruby-pg in ordinary use: every answer is printed, and must be what one plain server says. The address is the argument.

require "pg"

def say(what, answer) = puts("#{what}: #{answer.inspect}")

def refused(what)
  yield
  say(what, "NOT REFUSED")
rescue PG::Error => error
  field = ->(name) { error.result&.error_field(name) }
  say(what, [error.class.name, field.(PG::PG_DIAG_SQLSTATE), field.(PG::PG_DIAG_MESSAGE_PRIMARY), field.(PG::PG_DIAG_CONSTRAINT_NAME)])
end

one, two = PG.connect(ARGV[0]), PG.connect(ARGV[0])
one.set_notice_processor { |_| }
one.exec("DROP TABLE IF EXISTS drv_ruby; CREATE TABLE drv_ruby (id int PRIMARY KEY, v text, n int DEFAULT 0)")
one.type_map_for_results = PG::BasicTypeMapForResults.new(one)
two.type_map_for_results = PG::BasicTypeMapForResults.new(two)
say("server", [one.server_version / 10_000, one.get_client_encoding, one.parameter_status("standard_conforming_strings")])

# Values in text and in binary, both ways.
row = one.exec_params(
  "SELECT $1::numeric, $2::timestamptz AT TIME ZONE 'UTC', $3::int[], $4::bool, $5::int8, $6::text, $7::float8",
  ["12345678901234567890.0123456789", "2024-02-29 12:34:56.789012+00", "{1,2}", "t", (2**63 - 1).to_s, nil, "0.1"]
)
say("types", row.values)
binary = { value: "\0\1\xff\\".b, type: 17, format: 1 }
say("binary", one.exec_params("SELECT $1::bytea, 7::int4", [binary], 1).values)

500.times { |i| one.exec_params("INSERT INTO drv_ruby VALUES ($1, $2)", [i, "v#{i}"]) }
behind = 0
150.times do |i|
  one.exec_params("UPDATE drv_ruby SET n = $1 WHERE id = 7", [i])
  [one, two].each { |pg| behind += 1 if pg.exec_params("SELECT n FROM drv_ruby WHERE id = $1", [7]).getvalue(0, 0) != i }
end
say("reads that missed a write", behind)

# A prepared statement, behind a change of its table too.
one.prepare("all", "SELECT * FROM drv_ruby WHERE id = $1")
described = one.describe_prepared("all")
say("prepared", [one.exec_prepared("all", [3]).values, described.nparams, described.paramtype(0), described.fields])
two.exec("ALTER TABLE drv_ruby ADD COLUMN more int DEFAULT 5")
refused("a kept statement behind DDL") { one.exec_prepared("all", [1]) }
two.exec("ALTER TABLE drv_ruby DROP COLUMN more")
say("and as before", one.exec_prepared("all", [1]).values)
one.exec("DEALLOCATE all")
refused("no such statement") { one.exec_prepared("all", [1]) }

refused("duplicate key") { one.exec("INSERT INTO drv_ruby VALUES (7)") }
refused("no such column") { one.exec("SELECT nothing FROM drv_ruby") }
one.transaction do |pg|
  pg.exec("UPDATE drv_ruby SET v = 'own' WHERE id = 1")
  pg.exec("SAVEPOINT a")
  refused("in a savepoint") { pg.exec("SELECT 1 / 0") }
  say("status", pg.transaction_status == PG::PQTRANS_INERROR)
  pg.exec("ROLLBACK TO a")
  say("own write", pg.exec("SELECT v FROM drv_ruby WHERE id = 1").values)
  say("not yet elsewhere", two.exec("SELECT v FROM drv_ruby WHERE id = 1").values)
end
say("elsewhere", two.exec("SELECT v FROM drv_ruby WHERE id = 1").values)
begin
  one.transaction { |pg| pg.exec("DELETE FROM drv_ruby"); raise "no" }
rescue RuntimeError
  say("taken back", one.exec("SELECT count(*) FROM drv_ruby").values)
end

# Row by row, several at once, and a pipeline with an error in its middle.
one.send_query("SELECT id FROM drv_ruby ORDER BY id; SELECT 2 AS two")
one.set_single_row_mode
rows = Hash.new(0)
while (result = one.get_result)
  result.check
  rows[result.fields] += result.ntuples
end
say("row by row", rows)
one.enter_pipeline_mode
["UPDATE drv_ruby SET n = 5 WHERE id = 9", "SELECT n FROM drv_ruby WHERE id = 9"].each { |text| one.send_query_params(text, []) }
one.pipeline_sync
["SELECT 1 / 0", "SELECT n FROM drv_ruby WHERE id = 9"].each { |text| one.send_query_params(text, []) }
one.pipeline_sync
one.send_query_params("SELECT n FROM drv_ruby WHERE id = $1", [9])
one.pipeline_sync
statuses = []
while statuses.count(PG::PGRES_PIPELINE_SYNC) < 3
  result = one.get_result or next
  statuses << result.result_status
  say("in the pipeline", [result.res_status(result.result_status), result.error_field(PG::PG_DIAG_SQLSTATE), result.result_status == PG::PGRES_TUPLES_OK && result.values])
end
one.exit_pipeline_mode

one.copy_data("COPY drv_ruby FROM STDIN") { 2_000.times { |i| one.put_copy_data("#{1_000 + i}\tcopied\t1\n") } }
copied = 0
one.copy_data("COPY (SELECT id FROM drv_ruby WHERE id >= 1000 ORDER BY id) TO STDOUT") { copied += 1 while one.get_copy_data }
say("copied", [copied, two.exec("SELECT count(*) FROM drv_ruby").values])
refused("bad COPY") { one.copy_data("COPY drv_ruby FROM STDIN") { one.put_copy_data("x\ty\tz\n") } }
say("a COPY that its client ends", (one.copy_data("COPY drv_ruby FROM STDIN") { raise "no" } rescue $!.class.name))
say("and goes on", one.exec("SELECT count(*) FROM drv_ruby").values)

one.send_query("SELECT pg_sleep(30)")
# A request that overtakes its statement cancels nothing, at any server.
running = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
Thread.pass until two.exec(running).getvalue(0, 0) == 1
say("cancel", one.cancel)
refused("cancelled") { one.get_last_result }
say("and goes on", one.exec("SELECT 1").values)

two.exec("LISTEN drv")
one.exec("NOTIFY drv, 'hello'")
say("notified", [two.wait_for_notify(10) { |channel, _, payload| say("heard", [channel, payload]) }])
two.exec("UNLISTEN drv")

# Eight threads, each with a connection of its own.
transfers = 8.times.map do |worker|
  Thread.new do
    pg = PG.connect(ARGV[0])
    pg.type_map_for_results = PG::BasicTypeMapForResults.new(pg)
    sums = 20.times.map do
      pg.transaction do
        pg.exec_params("UPDATE drv_ruby SET n = n + $2 WHERE id = $1", [50 + worker, 1])
        pg.exec_params("UPDATE drv_ruby SET n = n - $2 WHERE id = $1", [60 + worker, 1])
      end
      pg.exec("SELECT sum(n) FROM drv_ruby WHERE id BETWEEN 50 AND 69").getvalue(0, 0)
    end
    pg.close
    sums.uniq
  end
end
say("sums", transfers.flat_map(&:value).uniq)
say("transferred", one.exec("SELECT array_agg(n ORDER BY id) FROM drv_ruby WHERE id BETWEEN 50 AND 69").values)
one.reset
say("after a reset", one.exec("SELECT 1 AS one").fields)
[one, two].each(&:close)
