--- Train
SELECT $$ ; TO TRAIN $$ AS a, $body$ it's $$ here; $body$ AS b, E'it\'s;' AS c, U&'d\0061t' AS d FROM t TO TRAIN M LABEL a INTO m;
--- Train
SELECT "to train; x", a::int, b::numeric(3, 1), c #>> '{a,b}', d @> '{"x": 1}', ARRAY[1, 2][1] FROM "My Schema"."T" TO TRAIN M LABEL a INTO m;
--- Train
SELECT DISTINCT ON (a) a, b FROM t ORDER BY a, b FETCH FIRST 3 ROWS ONLY TO TRAIN M LABEL a INTO m;
--- Train
SELECT * FROM t LIMIT ALL TO TRAIN M LABEL a INTO m;
--- Train
SELECT * FROM t, LATERAL (SELECT * FROM u WHERE u.id = t.id) AS l, generate_series(1, 3) AS g(i) TO TRAIN M LABEL a INTO m;
--- Train
SELECT a, count(*) FILTER (WHERE b > 1) OVER w FROM t WINDOW w AS (PARTITION BY a) TO TRAIN M LABEL a INTO m;
--- Train
SELECT EXTRACT(YEAR FROM d) AS y, SUBSTRING(s FROM 1 FOR 2), TRIM(BOTH ' ' FROM s), a IS DISTINCT FROM b FROM t TO TRAIN M LABEL y INTO m;
--- Train
SELECT a FROM t WHERE s SIMILAR TO '%(x|y)%' AND i > INTERVAL '1-2' YEAR TO MONTH TO TRAIN M LABEL a INTO m;
--- Train
SELECT 1 /* a /* nested */ ; TO TRAIN */ AS a TO TRAIN M LABEL a INTO m;
--- Train
TABLE iris TO TRAIN M LABEL a INTO m;
--- Train
VALUES (1, 2), (3, 4) TO TRAIN M LABEL column1 INTO m;
--- Train
SELECT a$b$c FROM t WHERE x = $1 TO TRAIN M WITH s = $$a 'b' "c"$$, t = E'tab\there' LABEL a INTO m;
--- Train
SELECT * FROM ONLY t TABLESAMPLE SYSTEM (10) TO TRAIN M LABEL a INTO m;
--- PlainSQL PlainSQL
CREATE FUNCTION f() RETURNS int AS $$ BEGIN; RETURN 1; END; $$ LANGUAGE plpgsql; SELECT f();
--- PlainSQL
DO $do$ BEGIN PERFORM 1; END $do$;
--- PlainSQL
SET search_path TO train;
--- PlainSQL
INSERT INTO t VALUES (1) RETURNING id;
--- PlainSQL
COPY t TO STDOUT WITH (FORMAT csv);
--- PlainSQL
GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA s TO explain WITH GRANT OPTION;
--- PlainSQL
ROLLBACK TO SAVEPOINT train;
