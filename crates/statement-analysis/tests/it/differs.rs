//! Statements that several servers would execute differently although they have the same rows: their rows lie
//! elsewhere.

use crate::server::Server;
use statement_analysis::Differs;

const TABLES: &str = "CREATE TABLE t (id int PRIMARY KEY, v int, w int); \
    CREATE TABLE s (id int PRIMARY KEY, v int, w int); \
    CREATE TABLE two (a int, b int, v int, PRIMARY KEY (a, b)); \
    CREATE TABLE loose (id int, v int); \
    CREATE TABLE parent (id int PRIMARY KEY, v int); CREATE TABLE child () INHERITS (parent); \
    CREATE TABLE parts (id int PRIMARY KEY, v int) PARTITION BY RANGE (id); \
    CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (100); \
    CREATE PUBLICATION consort FOR ALL TABLES";

/// Just one row is there to be taken, or it does not matter which.
const ALIKE: &[&str] = &[
    "UPDATE t SET v = s.v FROM s WHERE s.id = t.w",
    "UPDATE t SET v = s.v FROM s WHERE t.w + 1 = s.id AND t.v > 3 AND s.v > t.v",
    "UPDATE t SET v = s.v FROM s WHERE s.id = 7",
    "UPDATE t SET v = two.v FROM s JOIN two ON two.a = s.v AND two.b = 3 WHERE s.id = t.w",
    "UPDATE t SET v = s.v FROM loose, s WHERE loose.id = t.id AND s.id = t.w",
    "UPDATE t SET v = o.v FROM t o WHERE o.id = t.w",
    "UPDATE t SET v = parts.v FROM parts WHERE parts.id = t.w",
    "UPDATE t SET v = t.v + 1 FROM loose WHERE loose.id = t.id RETURNING t.id",
    "UPDATE t SET v = 5 FROM (VALUES (1), (1)) x (id) WHERE x.id = t.id",
    "UPDATE t SET v = (SELECT max(v) FROM loose WHERE loose.id = t.id)",
    "DELETE FROM t USING loose WHERE loose.id = t.id",
    "INSERT INTO t VALUES (1, 1), (1, 2) ON CONFLICT DO NOTHING",
    "INSERT INTO t VALUES (1, (SELECT max(v) FROM loose)) ON CONFLICT (id) DO UPDATE SET v = excluded.v",
    "INSERT INTO t SELECT n % 3, n FROM generate_series(1, 9) n ON CONFLICT DO NOTHING",
    "INSERT INTO t SELECT id, v FROM loose",
];

const MATCHES: &[&str] = &[
    "UPDATE t SET v = loose.v FROM loose WHERE loose.id = t.id",
    "UPDATE t SET v = s.v FROM s WHERE s.w = t.id",
    "UPDATE t SET v = s.v FROM s WHERE s.id > t.w",
    "UPDATE t SET v = s.v FROM s WHERE s.id = t.w OR t.id = 1",
    "UPDATE t SET v = two.v FROM two WHERE two.a = t.w",
    "UPDATE t SET v = s.v FROM loose, s WHERE loose.id = t.id AND s.id = loose.v",
    "UPDATE t SET v = s.v FROM loose LEFT JOIN s ON s.id = loose.v WHERE loose.id = t.id",
    "UPDATE t SET v = parent.v FROM parent WHERE parent.id = t.w",
    "UPDATE t SET v = x.n FROM (VALUES (1, 1), (1, 2)) x (id, n) WHERE x.id = t.id",
    "UPDATE t SET v = (SELECT max(two.v) FROM two WHERE two.a = loose.v) FROM loose WHERE loose.id = t.id",
    "WITH u AS (UPDATE t SET w = 1 FROM loose WHERE loose.id = t.id RETURNING loose.v) INSERT INTO s SELECT v FROM u",
];

const CONFLICTS: &[&str] = &[
    "INSERT INTO t SELECT id, v FROM loose ON CONFLICT DO NOTHING",
    "INSERT INTO t SELECT id, v FROM loose ON CONFLICT (id) DO UPDATE SET v = excluded.v",
    "INSERT INTO t SELECT n, 1 FROM generate_series(1, 9) n JOIN loose ON loose.id = n ON CONFLICT DO NOTHING",
];

#[test]
fn what_depends_on_where_rows_lie_differs() {
    let server = Server::start();
    crate::block_on(async {
        let mut analyst = server.connect("postgres").await;
        analyst.run(TABLES).await;
        let catalog = crate::catalog(&mut analyst).await;
        analyst.listen().await;
        for (statements, differs) in
            [(ALIKE, None), (MATCHES, Some(Differs::Matches)), (CONFLICTS, Some(Differs::Conflict))]
        {
            for statement in statements {
                let (template, _) = crate::judged(statement, &mut analyst, &catalog).await.unwrap();
                assert_eq!(template.replay.differs, differs, "{statement}");
            }
        }
    });
}
