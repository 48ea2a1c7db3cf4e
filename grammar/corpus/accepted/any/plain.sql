--- PlainSQL
SELECT 1
--- PlainSQL
SELECT * FROM iris.train WHERE class = 1;
--- PlainSQL
SHOW TABLES;
--- PlainSQL
SHOW DATABASES LIKE '%iris%';
--- PlainSQL
USE iris;
--- PlainSQL
DESCRIBE iris.train;
--- PlainSQL
DESCRIBE model;
--- PlainSQL
DESC model;
--- PlainSQL
DROP TABLE model;
--- PlainSQL
DROP TABLE IF EXISTS models;
--- PlainSQL
SHOW train;
--- PlainSQL
SHOW CREATE TABLE train;
--- PlainSQL
SELECT * FROM model;
--- PlainSQL
EXPLAIN SELECT * FROM t;
--- PlainSQL
EXPLAIN ANALYZE SELECT * FROM t WHERE a > 1;
--- PlainSQL
CREATE TABLE t (label INT, train TEXT, predict REAL);
--- PlainSQL
CREATE TABLE t AS SELECT a, b FROM u WHERE c IS NULL;
--- PlainSQL
INSERT INTO t VALUES (1, 'TO TRAIN'), (2, ';'), (3, 'it''s');
--- PlainSQL
INSERT INTO t (a, b) SELECT a, b FROM u;
--- PlainSQL
UPDATE t SET a = 'TO TRAIN m INTO x' WHERE b = ';';
--- PlainSQL
DELETE FROM t WHERE a = 1;
--- PlainSQL
ALTER TABLE a RENAME TO train;
--- PlainSQL
ALTER TABLE a RENAME COLUMN b TO predict;
--- PlainSQL
GRANT SELECT ON t TO run;
--- PlainSQL
BEGIN
--- PlainSQL PlainSQL PlainSQL PlainSQL
BEGIN; INSERT INTO t VALUES (1); COMMIT; ROLLBACK
--- PlainSQL PlainSQL PlainSQL
;; SELECT 1;; ; SELECT 2; /* nothing */ ; SELECT 3 -- the end
--- PlainSQL
SELECT t.to train FROM t;
--- PlainSQL
SELECT a AS to, b AS train FROM t;
--- PlainSQL
SELECT to, train, label, with, into FROM column;
--- PlainSQL
SELECT * FROM to train WHERE train.a = 1;
--- PlainSQL
SELECT (a TO TRAIN b) FROM t;
--- PlainSQL
SELECT INTERVAL '1-2' YEAR TO MONTH;
--- PlainSQL
SELECT * FROM t WHERE a SIMILAR TO 'x%';
--- PlainSQL
VALUES (1, 2), (3, 4);
--- PlainSQL
WITH a AS (SELECT 1) SELECT * FROM a;
--- PlainSQL
SELECT 'a' -- TO TRAIN m INTO x;
, 'b' /* ; TO TRAIN */ FROM t;
--- PlainSQL
some words no database takes, but that is for the database to say
--- PlainSQL PlainSQL
CREATE TRIGGER keep AFTER INSERT ON t BEGIN
  UPDATE u SET n = CASE WHEN n > 1 THEN n ELSE 0 END;
  DELETE FROM v;
END;
SELECT 1;
--- PlainSQL
EXEC do_it 1, 'two'
--- PlainSQL
KILL 5;
