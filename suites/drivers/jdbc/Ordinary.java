// pgjdbc in ordinary use: every answer is printed, and must be what one plain server says. The address is the argument.

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.*;
import java.time.OffsetDateTime;
import java.util.*;
import java.util.concurrent.*;
import org.postgresql.PGConnection;
import org.postgresql.PGStatement;
import org.postgresql.util.PSQLException;

public class Ordinary {
    interface Run { Object run() throws Exception; }

    static String url;

    static Connection connect(String options) throws SQLException { return DriverManager.getConnection(url + options); }

    static void say(String what, Object answer) { System.out.println(what + ": " + answer); }

    static void refused(String what, Run run) throws Exception {
        try {
            run.run();
            say(what, "NOT REFUSED");
        } catch (BatchUpdateException error) {
            say(what, error.getSQLState() + " " + Arrays.toString(error.getUpdateCounts()));
        } catch (PSQLException error) {
            var said = error.getServerErrorMessage();
            say(what, error.getSQLState() + (said == null ? "" : " " + said.getMessage() + " " + said.getConstraint()));
        }
    }

    static List<List<Object>> rows(ResultSet result) throws SQLException {
        var rows = new ArrayList<List<Object>>();
        while (result.next()) {
            var row = new ArrayList<Object>();
            for (int i = 1; i <= result.getMetaData().getColumnCount(); i++) row.add(shown(result, i));
            rows.add(row);
        }
        result.close();
        return rows;
    }

    // By its type: as text, binary and textual results of arrays look otherwise, and the driver has no text for binary bytes.
    static Object shown(ResultSet result, int i) throws SQLException {
        return switch (result.getMetaData().getColumnType(i)) {
            case Types.ARRAY -> Arrays.toString((Object[]) result.getArray(i).getArray());
            case Types.BINARY -> HexFormat.of().formatHex(result.getBytes(i));
            default -> result.getString(i);
        };
    }

    static List<List<Object>> query(Connection connection, String text) throws SQLException {
        try (var statement = connection.createStatement()) { return rows(statement.executeQuery(text)); }
    }

    static void execute(Connection connection, String text) throws SQLException {
        try (var statement = connection.createStatement()) { statement.execute(text); }
    }

    public static void main(String[] arguments) throws Exception {
        url = "jdbc:" + arguments[0].replaceFirst("postgres://postgres@", "postgresql://") + "?user=postgres";
        // Its ways to run a query: by default a statement is named from its fifth use on, and binary then.
        for (var mode : List.of("extended", "extendedForPrepared", "extendedCacheEverything", "simple")) {
            say("mode", mode);
            try (var one = connect("&preferQueryMode=" + mode); var two = connect("&preferQueryMode=" + mode)) {
                statements(one, two);
                blocks(one, two);
                batches(one);
                if (!mode.equals("simple")) bulk(one);
                others(one, two);
            }
        }
        say("mode", "autosave=always");
        try (var one = connect("&autosave=always")) {
            one.setAutoCommit(false);
            refused("duplicate key", () -> one.createStatement().execute("INSERT INTO drv_jdbc VALUES (7)"));
            say("the block goes on", query(one, "SELECT count(*) FROM drv_jdbc WHERE id = 7"));
            one.rollback();
        }
        busy();
    }

    static void statements(Connection one, Connection two) throws Exception {
        execute(one, "DROP TABLE IF EXISTS drv_jdbc; CREATE TABLE drv_jdbc (id int PRIMARY KEY, v text, n int DEFAULT 0)");
        execute(one, "INSERT INTO drv_jdbc SELECT i, 'v' || i FROM generate_series(1, 100) i");
        try (var types = one.prepareStatement("SELECT ?::numeric, ?::timestamptz AT TIME ZONE 'UTC', ?::jsonb, ?::int[], ?::bytea, ?::bool, ?::int8, ?::text")) {
            types.setBigDecimal(1, new BigDecimal("12345678901234567890.0123456789"));
            types.setObject(2, OffsetDateTime.parse("2024-02-29T12:34:56.789012Z"));
            types.setObject(3, "{\"a\": [1, null]}", Types.OTHER);
            types.setArray(4, one.createArrayOf("int4", new Object[] {1, null, 3}));
            types.setBytes(5, new byte[] {0, 1, -1, 92});
            types.setBoolean(6, true);
            types.setLong(7, Long.MAX_VALUE);
            types.setNull(8, Types.VARCHAR);
            for (int i = 0; i < 7; i++) say("types", rows(types.executeQuery()));
        }
        int behind = 0;
        try (var write = one.prepareStatement("UPDATE drv_jdbc SET n = ? WHERE id = ?");
                var here = one.prepareStatement("SELECT n FROM drv_jdbc WHERE id = ?");
                var there = two.prepareStatement("SELECT n FROM drv_jdbc WHERE id = ?")) {
            for (int i = 0; i < 100; i++) {
                write.setInt(1, i);
                write.setInt(2, 7);
                write.executeUpdate();
                for (var read : List.of(here, there)) {
                    read.setInt(1, 7);
                    if (!rows(read.executeQuery()).get(0).get(0).equals("" + i)) behind++;
                }
            }
            say("prepared on the server", here.unwrap(PGStatement.class).isUseServerPrepare());
        }
        say("reads that missed a write", behind);
        try (var keys = one.prepareStatement("INSERT INTO drv_jdbc VALUES (501, 'k')", Statement.RETURN_GENERATED_KEYS)) {
            keys.executeUpdate();
            say("generated keys", rows(keys.getGeneratedKeys()));
        }
        refused("duplicate key", () -> one.createStatement().execute("INSERT INTO drv_jdbc VALUES (7)"));
        refused("no such table", () -> query(one, "SELECT * FROM drv_nothing"));
        // A kept statement behind a change of its table.
        try (var kept = one.prepareStatement("SELECT * FROM drv_jdbc WHERE id = 1")) {
            for (int i = 0; i < 7; i++) rows(kept.executeQuery());
            execute(two, "ALTER TABLE drv_jdbc ADD COLUMN more int DEFAULT 5");
            say("a kept statement behind DDL", rows(kept.executeQuery()));
            execute(two, "ALTER TABLE drv_jdbc DROP COLUMN more");
            say("and once more", rows(kept.executeQuery()));
        }
        var columns = one.getMetaData().getColumns(null, "public", "drv_jdbc", "%");
        while (columns.next()) say("column", columns.getString("COLUMN_NAME") + " " + columns.getString("TYPE_NAME"));
        say("primary key", rows(one.getMetaData().getPrimaryKeys(null, "public", "drv_jdbc")));
    }

    static void blocks(Connection one, Connection two) throws Exception {
        one.setAutoCommit(false);
        execute(one, "UPDATE drv_jdbc SET v = 'own' WHERE id = 1");
        var savepoint = one.setSavepoint();
        refused("division by zero in a block", () -> query(one, "SELECT 1 / 0"));
        refused("the block has failed", () -> query(one, "SELECT 1"));
        one.rollback(savepoint);
        say("own write", query(one, "SELECT v FROM drv_jdbc WHERE id = 1"));
        say("not yet elsewhere", query(two, "SELECT v FROM drv_jdbc WHERE id = 1"));
        one.commit();
        say("elsewhere", query(two, "SELECT v FROM drv_jdbc WHERE id = 1"));
        execute(one, "DELETE FROM drv_jdbc");
        one.rollback();
        say("rolled back", query(one, "SELECT count(*) FROM drv_jdbc"));
        one.commit();
        one.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
        one.setReadOnly(true);
        say("level", query(one, "SHOW transaction_isolation"));
        refused("read only", () -> one.createStatement().executeUpdate("DELETE FROM drv_jdbc"));
        one.rollback();
        one.setReadOnly(false);
        one.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
        // A result in parts is a portal of the block.
        try (var walk = one.prepareStatement("SELECT id FROM drv_jdbc ORDER BY id")) {
            walk.setFetchSize(10);
            say("in parts", rows(walk.executeQuery()).size());
        }
        one.commit();
        one.setAutoCommit(true);
    }

    // A batch is one pipeline; in a block of its own, or outside of one, an error ends it.
    static void batches(Connection one) throws Exception {
        try (var batch = one.prepareStatement("INSERT INTO drv_jdbc VALUES (?, ?)")) {
            for (int from : List.of(2000, 1900)) {
                for (int i = from; i < from + 300; i++) {
                    batch.setInt(1, i);
                    batch.setString(2, "batch");
                    batch.addBatch();
                }
                if (from == 2000) say("batch", Arrays.stream(batch.executeBatch()).sum());
                else refused("a batch with an error", () -> batch.executeBatch());
            }
        }
        say("behind it", query(one, "SELECT count(*) FROM drv_jdbc WHERE id >= 1900"));
    }

    static void bulk(Connection one) throws Exception {
        var copy = one.unwrap(PGConnection.class).getCopyAPI();
        var text = new StringBuilder();
        for (int i = 5000; i < 7000; i++) text.append(i).append("\tcopied\t1\n");
        say("copied in", copy.copyIn("COPY drv_jdbc FROM STDIN", new ByteArrayInputStream(text.toString().getBytes(StandardCharsets.UTF_8))));
        var out = new ByteArrayOutputStream();
        say("copied out", copy.copyOut("COPY (SELECT * FROM drv_jdbc WHERE id >= 5000 ORDER BY id) TO STDOUT", out));
        say("the same", out.toString(StandardCharsets.UTF_8).contentEquals(text));
        refused("bad COPY", () -> copy.copyIn("COPY drv_jdbc FROM STDIN", new ByteArrayInputStream("x\ty\tz\n".getBytes())));
        say("behind it", query(one, "SELECT count(*) FROM drv_jdbc"));
    }

    static void others(Connection one, Connection two) throws Exception {
        try (var sleep = one.createStatement(); var bound = two.createStatement()) {
            var timer = new Timer();
            timer.schedule(new TimerTask() {
                @Override
                public void run() {
                    try { sleep.cancel(); } catch (SQLException error) { say("cancel", error); }
                }
            }, 300);
            refused("cancelled", () -> sleep.executeQuery("SELECT pg_sleep(30)"));
            timer.cancel();
            bound.setQueryTimeout(1);
            refused("query timeout", () -> bound.executeQuery("SELECT pg_sleep(30)"));
        }
        say("behind the cancel", query(one, "SELECT 1"));
        execute(two, "LISTEN drv");
        execute(one, "NOTIFY drv, 'hello'");
        for (var heard : two.unwrap(PGConnection.class).getNotifications(10000)) say("notified", heard.getName() + " " + heard.getParameter());
        execute(two, "UNLISTEN *");
    }

    // Eight threads, each with its connection: transfers between rows.
    static void busy() throws Exception {
        var threads = Executors.newFixedThreadPool(8);
        var running = new ArrayList<Future<Object>>();
        for (int worker = 0; worker < 8; worker++) {
            int from = 50 + worker;
            running.add(threads.submit(() -> transfer(from)));
        }
        for (var one : running) one.get();
        threads.shutdown();
        try (var one = connect("")) { say("transferred", query(one, "SELECT n FROM drv_jdbc WHERE id BETWEEN 50 AND 69 ORDER BY id")); }
    }

    static Object transfer(int from) throws Exception {
        try (var one = connect(""); var move = one.prepareStatement("UPDATE drv_jdbc SET n = n + ? WHERE id = ?")) {
            one.setAutoCommit(false);
            for (int i = 0; i < 20; i++) {
                for (int sign : List.of(1, -1)) {
                    move.setInt(1, sign);
                    move.setInt(2, sign > 0 ? from : from + 10);
                    move.executeUpdate();
                }
                one.commit();
                var sum = query(one, "SELECT sum(n) FROM drv_jdbc WHERE id BETWEEN 50 AND 69").get(0).get(0);
                if (!sum.equals("0")) say("sum", sum);
                one.commit();
            }
        }
        return null;
    }
}
