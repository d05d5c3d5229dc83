-- The data of the applications, the same for each run.
CREATE TABLE customer (id int PRIMARY KEY, name text NOT NULL, visits int NOT NULL);
CREATE TABLE purchase (id int PRIMARY KEY, customer_id int NOT NULL REFERENCES customer, amount int NOT NULL);
CREATE INDEX ON purchase (customer_id);
INSERT INTO customer SELECT n, 'customer ' || n, 0 FROM generate_series(1, 200) n;
INSERT INTO purchase SELECT n, n * 7 % 200 + 1, n FROM generate_series(1, 1000) n;
ANALYZE;
