INSERT INTO vg (id, base, w) SELECT g, g, g % 3 FROM generate_series(1, 8) g;
INSERT INTO vgp (id, base) SELECT g, g FROM generate_series(1, 8) g;
INSERT INTO tk VALUES ('[1,2)', '[2020-01-01,2021-01-01)', 'x'), ('[2,3)', '[2020-01-01,2021-01-01)', 'y');
INSERT INTO nef VALUES (1, 1), (2, 2); INSERT INTO nec VALUES (1, 1), (2, 9);
INSERT INTO vq (id, base, other) VALUES (4, 1, 2);
