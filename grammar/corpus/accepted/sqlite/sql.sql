--- Train
SELECT [sepal length], [to train; "x"], `a b`, "c d" FROM [iris train] TO TRAIN M WITH model.hidden_units = [[64, 32], [16]], names = ["a]b", '[c'] COLUMN DENSE(`sepal length`, [4]) LABEL class INTO m;
--- Train
SELECT x'ff' AS a, ?1, :name, @p, "it''s" FROM t WHERE b GLOB '*x' TO TRAIN M LABEL a INTO m;
--- Train
SELECT * FROM json_each('[1, 2]') TO TRAIN M LABEL value INTO m;
--- Train
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9) SELECT i, i * 2 AS y FROM n TO TRAIN M LABEL y INTO m;
--- Train
SELECT * FROM t INDEXED BY i WHERE a IS NOT DISTINCT FROM b TO TRAIN M LABEL a INTO m;
--- PlainSQL
PRAGMA table_info(iris);
--- PlainSQL
INSERT OR REPLACE INTO t VALUES (1, '/* not a comment', '-- neither');
--- PlainSQL
ATTACH DATABASE 'x.db' AS x;
--- PlainSQL PlainSQL
CREATE TEMP TRIGGER IF NOT EXISTS g BEFORE UPDATE ON t WHEN new.a > 1 BEGIN SELECT RAISE(ABORT, 'no; END'); END; VACUUM;
--- PlainSQL PlainSQL
CREATE VIEW event AS SELECT begin FROM t; SELECT 2;
