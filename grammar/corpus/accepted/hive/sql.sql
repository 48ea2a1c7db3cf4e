--- Train
SELECT "TO TRAIN x;" AS a, 'it\'s; TO TRAIN' AS b, `to train` FROM iris.train TO TRAIN M LABEL a INTO m;
--- Train
FROM t INSERT OVERWRITE TABLE x SELECT a TO TRAIN M LABEL a INTO m;
--- Train
SELECT TRANSFORM (a, b) USING 'python f.py' AS (c, d) FROM t TO TRAIN M LABEL c INTO m;
--- Train
SELECT * FROM t LATERAL VIEW explode(xs) e AS x DISTRIBUTE BY a SORT BY b TO TRAIN M LABEL x INTO m;
--- Train
SELECT * FROM t LEFT SEMI JOIN u ON (t.a = u.a) WHERE dt = '${hiveconf:dt}' AND n = 10L TO TRAIN M LABEL a INTO m;
--- Train
SELECT col_map['k'], arr[0], 1st_col FROM t WHERE s RLIKE '^a\\d' TO TRAIN M WITH re = "^\\d+$", s = 'it\'s' LABEL "y" INTO m;
--- PlainSQL
SET hive.exec.dynamic.partition = true;
--- PlainSQL
INSERT OVERWRITE TABLE t PARTITION (dt = '1') SELECT * FROM u;
--- PlainSQL
ALTER TABLE a RENAME TO train;
--- PlainSQL
ADD JAR /tmp/x.jar;
--- PlainSQL
CREATE TABLE t (a INT) ROW FORMAT DELIMITED FIELDS TERMINATED BY '\001' STORED AS TEXTFILE;
