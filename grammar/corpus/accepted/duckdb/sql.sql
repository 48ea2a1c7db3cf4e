--- Train
SELECT * FROM 'data/iris.csv' TO TRAIN DNNClassifier WITH model.hidden_units = [8] LABEL class INTO m;
--- Train
FROM 'iris.parquet' TO TRAIN DNNClassifier LABEL class INTO m;
--- Train
FROM iris SELECT * EXCLUDE (id), class WHERE id % 5 <> 0 TO TRAIN M LABEL class INTO m;
--- Train
SELECT * FROM read_csv('iris.csv', header = true, columns = {'a': 'INT', 'b': 'DOUBLE'}) TO TRAIN M LABEL b INTO m;
--- Train
SELECT [1, 2, 3] AS v, {'a': 1} AS s, list_transform([1], lambda x: x + 1) AS l, t.x[1:2] FROM t TO TRAIN M LABEL v INTO m;
--- Train
SELECT "to train; x" AS a, $$ ; TO TRAIN $$ AS b, $tag$ it's $$ ; $tag$ AS c, E'it\'s; TO TRAIN' AS d FROM t TO TRAIN M LABEL a INTO m;
--- Train
SELECT a, FROM t TO TRAIN M LABEL a INTO m;
--- Train
SELECT * FROM t USING SAMPLE 10% (bernoulli) TO TRAIN M LABEL a INTO m;
--- Train
SELECT a::INT, b FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) = 1 TO TRAIN M LABEL a INTO m;
--- Train
PIVOT cities ON year USING sum(population) TO TRAIN M LABEL a INTO m;
--- Train
SELECT COLUMNS('c.*'), 10 // 3, 2 ** 3, x -> 'a' ->> 'b' FROM t ASOF JOIN u USING (k) TO TRAIN M LABEL a INTO m;
--- Train
SELECT * FROM t TO TRAIN M WITH a = $$it's "quoted"$$, validation.select = $q$SELECT * FROM t WHERE a = 'x'$q$ LABEL a INTO m;
--- Train
SELECT 1 /* a /* nested ; TO TRAIN */ comment */ AS a TO TRAIN M LABEL a INTO m;
--- PlainSQL
COPY t TO 'out.parquet' (FORMAT parquet);
--- PlainSQL
COPY (SELECT * FROM t) TO 'train.csv';
--- PlainSQL
PRAGMA database_list;
--- PlainSQL
SUMMARIZE t;
--- PlainSQL
INSTALL httpfs;
--- PlainSQL
ATTACH 'other.db' AS other (READ_ONLY);
--- PlainSQL
SELECT $1, $name, '\' FROM t;
--- Train
SELECT * FROM t WHERE a = '\' TO TRAIN M WITH sep = '\', re = '^\d+$' LABEL a INTO m;
