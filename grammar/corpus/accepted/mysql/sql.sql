--- Train
SELECT "TO TRAIN x;" AS a, 'it\'s; TO TRAIN' AS b, "say \"hi\"", `to train` FROM iris.train TO TRAIN M LABEL a INTO m;
--- Train
SELECT * # all; TO TRAIN
FROM t # the 'table
TO TRAIN M # a "model
LABEL a INTO m;
--- Train
SELECT 5--3 AS five, a -- a comment
FROM t TO TRAIN M LABEL a INTO m;
--- Train
SELECT /*+ MAX_EXECUTION_TIME(1000) */ SQL_NO_CACHE * FROM t FORCE INDEX (i) TO TRAIN M LABEL a INTO m;
--- Train
SELECT /*!40001 SQL_NO_CACHE */ * FROM t TO TRAIN M LABEL a INTO m;
--- Train
SELECT @v := 1, @@version, _utf8mb4'x', 0xff, b'01', a DIV 2, a MOD 3 FROM t STRAIGHT_JOIN u TO TRAIN M LABEL a INTO m;
--- Train
SELECT * FROM t PARTITION (p0) WHERE MATCH (a) AGAINST ('x' IN BOOLEAN MODE) LIMIT 5, 10 TO TRAIN M LABEL a INTO m;
--- Train
SELECT * FROM t TO TRAIN M WITH a = "tab\there", b = 'C:\\temp', c = "\"", d = '\'', e = "a""b", f = 'a''b', g = "\%\_", h = "line
break" LABEL "class" INTO m;
--- Train
SELECT * FROM t TO TRAIN M COLUMN INDICATOR(CATEGORY_ID("f\\d+", 10)), "a column", 'a regex' LABEL "y" INTO m;
--- Train
SELECT * FROM `鸢尾花`.`训练` TO TRAIN M WITH note = "注释；# 不是" LABEL `类别` INTO m;
--- Train
SELECT IF(a = "x", 1, 0) AS y, GROUP_CONCAT(DISTINCT b ORDER BY c SEPARATOR ';') AS s FROM t GROUP BY y WITH ROLLUP TO TRAIN M LABEL y INTO m;
--- Train
SELECT 1st_col, 2020_sales.x FROM t TO TRAIN M COLUMN 1st_col LABEL x INTO m;
--- PlainSQL
/*!40101 SET NAMES utf8mb4 */;
--- PlainSQL
/*!50003 CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW BEGIN SET NEW.a = 1; END */;
--- PlainSQL
RENAME TABLE a TO train, b TO run;
--- PlainSQL
SET @a = "x;y", @b = 'z';
--- PlainSQL
REPLACE INTO t VALUES (1, "a;b");
--- PlainSQL
LOAD DATA LOCAL INFILE 'f.csv' INTO TABLE t FIELDS TERMINATED BY ',' ENCLOSED BY '"' LINES TERMINATED BY '\n';
--- PlainSQL PlainSQL
CREATE DEFINER = `root`@`localhost` PROCEDURE p(IN a INT)
BEGIN
  IF a > 1 THEN SELECT 1; END IF;
  inner_block: BEGIN DECLARE x INT; SET x = 2; END inner_block;
  WHILE a > 0 DO SET a = a - 1; END WHILE;
END;
CALL p(1);
--- PlainSQL
CALL p("TO TRAIN");
