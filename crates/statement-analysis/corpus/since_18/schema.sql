-- What PostgreSQL 18 has more: virtual generated columns, keys without overlaps, constraints that are not enforced.
CREATE TABLE vg (id int PRIMARY KEY, base int, v int GENERATED ALWAYS AS (base * 2) VIRTUAL, w int);
CREATE TABLE vgp (id int PRIMARY KEY, base int, v int GENERATED ALWAYS AS (base * 2) VIRTUAL) PARTITION BY RANGE (id);
CREATE TABLE vgp_0 (base int, id int NOT NULL, v int GENERATED ALWAYS AS (base + 100) VIRTUAL);
ALTER TABLE vgp ATTACH PARTITION vgp_0 FOR VALUES FROM (0) TO (3);
CREATE TABLE vgp_1 PARTITION OF vgp FOR VALUES FROM (3) TO (100);
CREATE TABLE tk (id int4range, valid_at daterange, n text, PRIMARY KEY (id, valid_at WITHOUT OVERLAPS));
CREATE TABLE nef (id int PRIMARY KEY, v int);
CREATE TABLE nec (id int PRIMARY KEY, p int REFERENCES nef ON DELETE CASCADE NOT ENFORCED);
CREATE TABLE vq (id int PRIMARY KEY, base int, other int, v int GENERATED ALWAYS AS (base) VIRTUAL) PARTITION BY RANGE (id);
CREATE TABLE vqc (id int PRIMARY KEY, base int, other int, v int GENERATED ALWAYS AS (other) VIRTUAL);
ALTER TABLE vq ATTACH PARTITION vqc FOR VALUES FROM (0) TO (10);
