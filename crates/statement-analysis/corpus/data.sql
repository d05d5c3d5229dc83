-- A few rows everywhere, so that a footprint that is too small shows in a result.
SET session_replication_role = replica;
INSERT INTO pgbench_branches SELECT n, n * 10, 'f' FROM generate_series(1, 5) n;
INSERT INTO pgbench_tellers SELECT n, n % 5 + 1, n, 'f' FROM generate_series(1, 9) n;
INSERT INTO pgbench_accounts SELECT n, abs(n) % 5 + 1, n * 3, 'f' FROM generate_series(-9, 9) n;
INSERT INTO pgbench_history SELECT n, n, n, n, '2024-01-01', 'h' FROM generate_series(1, 3) n;
INSERT INTO customers (id, email, name, active, tenant, created_at, data)
    SELECT n, CASE n WHEN 3 THEN 'a@b.c' WHEN 4 THEN 'y' ELSE 'c' || n END, CASE n % 3 WHEN 0 THEN NULL ELSE 'n' || n END,
           n % 2 = 0, n % 4, '2024-01-01'::timestamptz + n * interval '3 days', jsonb_build_object('a', 'b', 'k', n)
    FROM generate_series(1, 12) n;
INSERT INTO products SELECT n, 's' || n, 'title ' || n, n * 1.5, n / 3.0, ARRAY['a', 'b' || n], to_tsvector('english', 'cat dog ' || n)
    FROM generate_series(1, 12) n;
INSERT INTO orders SELECT n, n % 12 + 1, (ARRAY['new', 'paid', 'sent'])[n % 3 + 1]::order_state, '2024-01-01'::date + n, n * 2, CASE WHEN n % 4 > 0 THEN 'note' || n END
    FROM generate_series(1, 30) n;
INSERT INTO order_lines SELECT o, l, (o + l) % 12 + 1, l, o FROM generate_series(1, 30) o, generate_series(1, 2) l;
INSERT INTO reviews SELECT ('1b4e28ba-2fa1-11d2-883f-0016d3cca4' || lpad(n::text, 2, '0'))::uuid, n % 12 + 1, n % 5, 'r' FROM generate_series(20, 30) n;
INSERT INTO by_small SELECT n, n FROM generate_series(-6, 12) n;
INSERT INTO by_uuid SELECT ('1b4e28ba-2fa1-11d2-883f-0016d3cca4' || lpad(n::text, 2, '0'))::uuid, n FROM generate_series(20, 30) n;
INSERT INTO by_text SELECT v, ascii(v) FROM unnest(ARRAY['abc', 'ab', 'it''s', 'a''b', 'a\b', 'é', 'a', 'b', 'x', 'ABC', 'abc ']) v;
INSERT INTO by_varchar SELECT v, 1 FROM unnest(ARRAY['abc', 'a', 'b', 'c ']) v;
INSERT INTO by_bytea VALUES ('\xdeadbeef', 1), ('abc', 2), ('', 3);
INSERT INTO by_date VALUES ('2024-02-29', 1), ('2024-01-01', 2), ('infinity', 3);
INSERT INTO by_numeric VALUES (1.0, 1), (2, 2);
INSERT INTO by_float VALUES (1, 1), ('-0', 2);
INSERT INTO by_char VALUES ('a', 1), ('b', 2);
INSERT INTO by_timestamp VALUES ('2024-01-01 00:00:00+00', 1), ('2024-02-01', 2);
INSERT INTO by_bool VALUES (true, 1), (false, 2);
INSERT INTO by_two SELECT n, v, n FROM generate_series(1, 3) n, unnest(ARRAY['x', 'y', 'z']) v;
INSERT INTO by_loose_text VALUES ('ABC', 1), ('d', 2);
INSERT INTO by_rival VALUES ('abc', 1), ('d', 2);
INSERT INTO by_many_indexes VALUES ('x', 1, 1), ('X', 1, 2);
INSERT INTO by_deferrable SELECT n, n FROM generate_series(1, 6) n;
INSERT INTO by_unique SELECT n, n FROM generate_series(1, 6) n;
INSERT INTO by_index SELECT n, n, n FROM generate_series(1, 6) n;
INSERT INTO by_domain SELECT n, n FROM generate_series(1, 2) n;
INSERT INTO by_citext VALUES ('A', 1), ('b', 2);
INSERT INTO no_key SELECT n, 't' || n FROM generate_series(1, 4) n;
INSERT INTO events SELECT n, '2023-03-01'::date + n * 30, n % 3 + 1, 'p' || n FROM generate_series(1, 14) n;
INSERT INTO events VALUES (4, '2024-03-04', 3, 'four'), (1, '2024-05-06', 3, 'one');
INSERT INTO animals SELECT n, 'a' || n FROM generate_series(1, 3) n;
INSERT INTO dogs SELECT n, 'd' || n, 'breed' FROM generate_series(3, 5) n;
INSERT INTO people SELECT n, 'f' || n, 'l' || n, n FROM generate_series(1, 4) n;
INSERT INTO chickens SELECT n, n FROM generate_series(1, 4) n;
INSERT INTO eggs SELECT n, n % 4 + 1 FROM generate_series(1, 4) n;
INSERT INTO parents SELECT n, 'c' || n FROM generate_series(1, 4) n;
INSERT INTO restricts SELECT n, n FROM generate_series(3, 4) n;
INSERT INTO nulls SELECT n, n, 'c' || n FROM generate_series(1, 4) n;
INSERT INTO typed SELECT n, ROW(n, 't' || n)::pair, int_span(n, n + 2), 'paid', n FROM generate_series(1, 4) n;
INSERT INTO triggered SELECT n, n FROM generate_series(1, 4) n;
INSERT INTO statement_triggered SELECT n, n FROM generate_series(1, 4) n;
INSERT INTO ruled SELECT n + 10, n FROM generate_series(1, 4) n;
INSERT INTO ruled_children SELECT n, n FROM generate_series(1, 4) n;
INSERT INTO documents SELECT n, n % 2, CASE n % 2 WHEN 0 THEN 'tenant_user' ELSE 'other' END, 'b' || n, false FROM generate_series(1, 4) n;
INSERT INTO notes SELECT n, n % 2, 'b' || n FROM generate_series(1, 4) n;
INSERT INTO projects SELECT n, 't' || n, n % 2 = 1, 'o' FROM generate_series(1, 4) n;
INSERT INTO members SELECT n, 'tenant_user' FROM generate_series(2, 4) n;
INSERT INTO plain_checks SELECT n + 20, n, 'w' FROM generate_series(1, 4) n;
INSERT INTO with_hstore SELECT n, 'a=>1' FROM generate_series(1, 3) n;
INSERT INTO "Weird (name) {x} \y :relid 5" SELECT n, 'a', n, n, 'é' FROM generate_series(1, 5) n;
INSERT INTO wide (id, c1, c2, c3, c200) SELECT n, n, n, n, n FROM generate_series(1, 3) n;
RESET session_replication_role;
