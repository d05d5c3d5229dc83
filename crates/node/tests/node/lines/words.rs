//! Further conditions that decide the placement and the result of a statement: views, rules, triggers,
//! policies, names, prepared statements, inheritance and partitions, roles.

use super::Step::{As, Fresh, Leaves, Named, NamedLeaves, Other, Parses, Runs, Stays, Still};
use super::{BEHIND, Line};

const READ: &str = "SELECT name FROM items WHERE id = 1";

const VIEWS_AND_RULES: Line = Line {
    objects: &[
        "CREATE VIEW seen AS SELECT id, name FROM items WHERE id < 9",
        "CREATE VIEW seen_again AS SELECT s.name, b.id FROM seen s JOIN bystander b ON b.id = s.id",
        "CREATE TABLE log (id int)",
        "CREATE VIEW ruled AS SELECT id, name FROM items",
        "CREATE RULE to_log AS ON INSERT TO ruled DO INSTEAD INSERT INTO log VALUES (NEW.id)",
        "CREATE RULE also AS ON UPDATE TO items WHERE NEW.name = 'also' DO ALSO INSERT INTO log VALUES (NEW.id)",
        "CREATE TABLE turned (id int)",
        "CREATE RULE turn AS ON DELETE TO turned DO INSTEAD UPDATE items SET name = 'turned' WHERE id = OLD.id",
        "INSERT INTO turned VALUES (4)",
    ],
    shared: &[],
    scenarios: &[
        (
            "a view",
            &[Fresh(&["UPDATE items SET name = 'a' WHERE id = 1"], "SELECT name FROM seen WHERE id = 1")],
        ),
        (
            "a view of a view",
            &[Fresh(
                &["UPDATE items SET name = 'b' WHERE id = 1"],
                "SELECT name FROM seen_again WHERE id = 1",
            )],
        ),
        ("a write through a view", &[Fresh(&["UPDATE seen SET name = 'c' WHERE id = 1"], READ)]),
        ("INSTEAD", &[Fresh(&["INSERT INTO ruled VALUES (1, 'x')"], "SELECT count(*) FROM log")]),
        ("ALSO", &[Fresh(&["UPDATE items SET name = 'also' WHERE id = 2"], "SELECT count(*) FROM log")]),
        ("another command", &[Fresh(&["DELETE FROM turned"], "SELECT name FROM items WHERE id = 4")]),
        (
            "a view that becomes another",
            &[
                Leaves("SELECT name FROM seen WHERE id = 1"),
                Still(&[
                    Leaves("SELECT name FROM seen WHERE id = 1"),
                    Other("CREATE OR REPLACE VIEW seen AS SELECT id, name || ' replaced' AS name FROM items"),
                    Stays(BEHIND, "SELECT name FROM seen WHERE id = 1"),
                ]),
                Other("CREATE TABLE others AS SELECT id, 'other' AS name FROM items"),
                Leaves("SELECT name FROM seen WHERE id = 1"),
                Still(&[
                    Leaves("SELECT name FROM seen WHERE id = 1"),
                    Other("CREATE OR REPLACE VIEW seen AS SELECT id, name FROM others"),
                    Stays(BEHIND, "SELECT name FROM seen WHERE id = 1"),
                ]),
                Fresh(&["UPDATE others SET name = 'fresh'"], "SELECT name FROM seen WHERE id = 1"),
            ],
        ),
    ],
};

#[test]
fn views_and_rules() {
    VIEWS_AND_RULES.holds();
}

const TRIGGERS_AND_KEYS: Line = Line {
    objects: &[
        "CREATE TABLE audit (id int)",
        "CREATE FUNCTION audits() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO audit VALUES (1); RETURN NULL; END'",
        "CREATE TRIGGER audits AFTER UPDATE ON items FOR EACH STATEMENT EXECUTE FUNCTION audits()",
        "CREATE TABLE children (id int PRIMARY KEY, item int REFERENCES items ON DELETE CASCADE ON UPDATE CASCADE)",
        "INSERT INTO children VALUES (1, 7), (2, 8)",
        "CREATE TABLE made (id int PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED, email text UNIQUE)",
        // Only whole old rows show which columns changed.
        "ALTER TABLE made REPLICA IDENTITY FULL",
        "INSERT INTO made (id, a, email) VALUES (1, 1, 'a'), (2, 2, 'b')",
    ],
    shared: &[],
    scenarios: &[
        ("a trigger", &[Fresh(&["UPDATE items SET name = 'x' WHERE id = 1"], "SELECT count(*) FROM audit")]),
        (
            "a foreign key",
            &[
                Fresh(&["UPDATE items SET id = 80 WHERE id = 8"], "SELECT item FROM children WHERE id = 2"),
                Fresh(&["DELETE FROM items WHERE id = 7"], "SELECT count(*) FROM children WHERE item = 7"),
            ],
        ),
        (
            "a generated column",
            &[Fresh(&["UPDATE made SET a = 5 WHERE id = 1"], "SELECT twice FROM made WHERE id = 1")],
        ),
        (
            "a key that changes",
            &[
                Fresh(&["UPDATE made SET id = 20 WHERE id = 2"], "SELECT count(*) FROM made WHERE id = 20"),
                Fresh(&["UPDATE made SET id = 2 WHERE id = 20"], "SELECT count(*) FROM made WHERE id = 20"),
            ],
        ),
        (
            "a row by another column",
            &[
                Fresh(&["UPDATE made SET a = 6 WHERE email = 'a'"], "SELECT a FROM made WHERE id = 1"),
                Fresh(&["UPDATE made SET a = 7 WHERE id = 1"], "SELECT a FROM made WHERE email = 'a'"),
            ],
        ),
    ],
};

#[test]
fn triggers_and_keys() {
    TRIGGERS_AND_KEYS.holds();
}

const INHERITANCE_AND_PARTITIONS: Line = Line {
    objects: &[
        "CREATE TABLE parent (id int PRIMARY KEY, v int)",
        "CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent)",
        "INSERT INTO child VALUES (1, 1)",
        "CREATE TABLE parts (id int PRIMARY KEY, v int) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (50)",
        "CREATE TABLE high PARTITION OF parts FOR VALUES FROM (50) TO (100)",
        "INSERT INTO parts VALUES (1, 1), (60, 60)",
        "CREATE TABLE more (id int PRIMARY KEY, v int)",
        "INSERT INTO more VALUES (150, 150)",
    ],
    shared: &[],
    scenarios: &[
        (
            "a child's rows are the parent's",
            &[
                Fresh(&["UPDATE child SET v = 2 WHERE id = 1"], "SELECT v FROM parent WHERE id = 1"),
                Fresh(&["UPDATE parent SET v = 3 WHERE id = 1"], "SELECT v FROM child WHERE id = 1"),
            ],
        ),
        (
            "a partition's rows are the parent's",
            &[
                Fresh(&["UPDATE low SET v = 2 WHERE id = 1"], "SELECT v FROM parts WHERE id = 1"),
                Fresh(&["UPDATE parts SET v = 3 WHERE id = 1"], "SELECT v FROM low WHERE id = 1"),
            ],
        ),
        ("a row that moves", &[Fresh(&["UPDATE parts SET id = 61 WHERE id = 1"], "SELECT sum(v) FROM high")]),
        (
            "a partition that comes and goes",
            &[
                Leaves("SELECT sum(v) FROM parts"),
                Other("ALTER TABLE parts ATTACH PARTITION more FOR VALUES FROM (100) TO (200)"),
                Runs("SELECT sum(v) FROM parts"),
                Leaves("SELECT sum(v) FROM parts"),
                Fresh(&["UPDATE more SET v = 1"], "SELECT sum(v) FROM parts"),
                Other("ALTER TABLE parts DETACH PARTITION more"),
                Runs("SELECT sum(v) FROM parts"),
                Leaves("SELECT sum(v) FROM parts"),
            ],
        ),
    ],
};

#[test]
fn inheritance_and_partitions() {
    INHERITANCE_AND_PARTITIONS.holds();
}

const PREPARED_STATEMENTS_AND_NAMES: Line = Line {
    objects: &[
        "CREATE SCHEMA other",
        "CREATE TABLE other.items AS SELECT id, 'other ' || name AS name FROM items",
        "CREATE FUNCTION other.abs(int) RETURNS int LANGUAGE sql AS 'SELECT 7'",
    ],
    shared: &[],
    scenarios: &[
        (
            "a table that changes",
            &[
                Parses("all", "SELECT * FROM items WHERE id = 1"),
                NamedLeaves("all"),
                Other("ALTER TABLE items ADD COLUMN more int DEFAULT 5"),
                Named("all"),
                Named("all"),
                Other("ALTER TABLE items DROP COLUMN more"),
                Named("all"),
            ],
        ),
        (
            "a table that is another",
            &[
                Parses("named", READ),
                NamedLeaves("named"),
                Other(
                    "BEGIN; ALTER TABLE items RENAME TO was; CREATE TABLE items AS SELECT id, 'new ' || name AS name FROM was; COMMIT",
                ),
                Named("named"),
                Named("named"),
                Other("BEGIN; DROP TABLE items; ALTER TABLE was RENAME TO items; COMMIT"),
                Named("named"),
            ],
        ),
        (
            "search_path changes between Parse and Bind",
            &[
                Leaves(READ),
                Parses("named", READ),
                NamedLeaves("named"),
                Runs("SET search_path = other"),
                Leaves(READ),
                Named("named"),
                Named("named"),
                Runs("SET search_path = public"),
                Named("named"),
            ],
        ),
        (
            "a temporary table between Parse and Bind",
            &[
                Parses("named", READ),
                NamedLeaves("named"),
                Runs("CREATE TEMP TABLE items (id int, name text)"),
                Named("named"),
                Named("named"),
                Runs("DROP TABLE pg_temp.items"),
                Named("named"),
            ],
        ),
        (
            "a table that comes before another",
            &[
                Runs("SET search_path = other, public"),
                Leaves("SELECT id FROM bystander"),
                Other("CREATE TABLE other.bystander AS SELECT 2 AS id"),
                Runs("SELECT id FROM bystander"),
                Leaves("SELECT id FROM bystander"),
                Other("DROP TABLE other.bystander"),
                Runs("SELECT id FROM bystander"),
            ],
        ),
        (
            "a function before PostgreSQL's own",
            &[
                Leaves("SELECT abs(-id) FROM bystander"),
                Runs("SET search_path = other, pg_catalog, public"),
                Stays("unknown_function", "SELECT abs(-id) FROM bystander"),
            ],
        ),
    ],
};

#[test]
fn prepared_statements_and_names() {
    PREPARED_STATEMENTS_AND_NAMES.holds();
}

const ROLES_AND_ROW_LEVEL_SECURITY: Line = Line {
    objects: &[
        "CREATE ROLE ada LOGIN",
        "CREATE ROLE bob LOGIN",
        "CREATE TABLE members (name text PRIMARY KEY, item int)",
        "INSERT INTO members VALUES ('ada', 1), ('bob', 2)",
        "CREATE TABLE owned (id int PRIMARY KEY, owner text)",
        "INSERT INTO owned VALUES (1, 'ada'), (2, 'bob')",
        "ALTER TABLE owned ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY own ON owned USING (owner = current_user)",
        "ALTER TABLE items ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY of_members ON items USING (id IN (SELECT item FROM members WHERE members.name = current_user))",
        "CREATE TABLE tenants (id int PRIMARY KEY, tenant int)",
        "INSERT INTO tenants VALUES (1, 1), (2, 2)",
        "ALTER TABLE tenants ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY of_tenant ON tenants USING (tenant = current_setting('app.tenant')::int)",
        "GRANT SELECT ON owned, items, members, bystander, tenants TO ada, bob",
    ],
    shared: &[],
    scenarios: &[
        (
            "each sees his own",
            &[As("ada"), Leaves("SELECT id FROM owned"), As("bob"), Leaves("SELECT id FROM owned")],
        ),
        (
            "SET ROLE",
            &[
                Leaves("SELECT id FROM owned"),
                Runs("SET ROLE ada"),
                Leaves("SELECT id FROM owned"),
                Runs("RESET ROLE"),
                Leaves("SELECT id FROM owned"),
            ],
        ),
        (
            "row_security",
            &[
                As("ada"),
                Runs("SET row_security = off"),
                Leaves("SELECT id FROM bystander"),
                Runs("SELECT id FROM owned"),
                Leaves("SELECT id FROM bystander"),
                Runs("SELECT id FROM owned"),
                Runs("SELECT id FROM owned"),
            ],
        ),
        (
            "a policy that reads",
            &[As("ada"), Fresh(&["UPDATE members SET item = 3 WHERE name = 'ada'"], "SELECT id FROM items")],
        ),
        (
            "a policy that asks the session",
            &[
                As("ada"),
                Runs("SET app.tenant = 1"),
                Stays("session", "SELECT id FROM tenants"),
                Runs("SET app.tenant = 2"),
                Stays("session", "SELECT id FROM tenants"),
            ],
        ),
        (
            "a policy that changes",
            &[
                As("bob"),
                Leaves("SELECT id FROM owned"),
                Still(&[
                    Leaves("SELECT id FROM owned"),
                    Other("ALTER POLICY own ON owned USING (true)"),
                    Stays(BEHIND, "SELECT id FROM owned"),
                ]),
                Leaves("SELECT id FROM owned"),
                Other("ALTER POLICY own ON owned USING (id IN (SELECT item FROM members))"),
                Runs("SELECT id FROM owned"),
                Fresh(&["UPDATE members SET item = 1"], "SELECT id FROM owned"),
            ],
        ),
        (
            "REVOKE",
            &[
                As("bob"),
                Leaves("SELECT id FROM bystander"),
                Still(&[
                    Leaves("SELECT id FROM bystander"),
                    Other("REVOKE SELECT ON bystander FROM bob"),
                    Stays(BEHIND, "SELECT id FROM bystander"),
                ]),
                Other("GRANT SELECT ON bystander TO bob"),
                Runs("SELECT id FROM bystander"),
            ],
        ),
        (
            "a membership that ends",
            &[
                Other("CREATE ROLE readers"),
                Other("REVOKE SELECT ON bystander FROM bob"),
                Other("GRANT SELECT ON bystander TO readers"),
                Other("GRANT readers TO bob"),
                As("bob"),
                Leaves("SELECT id FROM bystander"),
                Still(&[
                    Leaves("SELECT id FROM bystander"),
                    Other("REVOKE readers FROM bob"),
                    Stays(BEHIND, "SELECT id FROM bystander"),
                ]),
            ],
        ),
        (
            "a role that changes",
            &[
                As("ada"),
                Leaves("SELECT id FROM owned"),
                Still(&[
                    Leaves("SELECT id FROM owned"),
                    Other("ALTER ROLE ada BYPASSRLS"),
                    Stays(BEHIND, "SELECT id FROM owned"),
                ]),
                Leaves("SELECT id FROM owned"),
                // The role is that of the other databases too.
                Other("ALTER ROLE ada NOBYPASSRLS"),
                Leaves("SELECT id FROM owned"),
            ],
        ),
    ],
};

#[test]
fn roles_and_row_level_security() {
    ROLES_AND_ROW_LEVEL_SECURITY.holds();
}
