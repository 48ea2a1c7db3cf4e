--- the verb misspelled
SELECT * FROM t TO TRIAN m INTO x;
---
line 1, column 20: TO has no verb 'TRIAN'; did you mean TRAIN?
  SELECT * FROM t TO TRIAN m INTO x;
                     ^^^^^
--- the verb misspelled, later in the program
SELECT 1;
-- now the model
SELECT *
FROM t
TO PREDCIT r.y USING m;
---
line 5, column 4: TO has no verb 'PREDCIT'; did you mean PREDICT?
  TO PREDCIT r.y USING m;
     ^^^^^^^
--- the verb unknown
SELECT * FROM t TO FORGET m;
---
line 1, column 20: TO has no verb 'FORGET'; expected TRAIN, PREDICT, EVALUATE, EXPLAIN, RUN, MAXIMIZE or MINIMIZE
  SELECT * FROM t TO FORGET m;
                     ^^^^^^
--- the verb missing
SELECT * FROM t TO;
---
line 1, column 17: TO needs a verb; expected TRAIN, PREDICT, EVALUATE, EXPLAIN, RUN, MAXIMIZE or MINIMIZE
  SELECT * FROM t TO;
                  ^^
--- the verb missing, the clauses there
SELECT * FROM t TO DNNClassifier WITH a = 1 LABEL y INTO m;
---
line 1, column 20: TO has no verb 'DNNClassifier'; expected TRAIN, PREDICT, EVALUATE, EXPLAIN, RUN, MAXIMIZE or MINIMIZE
  SELECT * FROM t TO DNNClassifier WITH a = 1 LABEL y INTO m;
                     ^^^^^^^^^^^^^
--- no query
TO TRAIN M LABEL y INTO m;
---
line 1, column 1: TO TRAIN needs a query before it
  TO TRAIN M LABEL y INTO m;
  ^^
--- no query and no verb
TO;
---
line 1, column 1: TO needs a verb; expected TRAIN, PREDICT, EVALUATE, EXPLAIN, RUN, MAXIMIZE or MINIMIZE
  TO;
  ^^
--- no query and an unknown verb
TO TRIAN M;
---
line 1, column 4: TO has no verb 'TRIAN'; did you mean TRAIN?
  TO TRIAN M;
     ^^^^^
--- the query without a table
SELECT * FROM TO TRAIN M LABEL y INTO m;
---
line 1, column 10: the query before TO TRAIN ends after 'FROM'
  SELECT * FROM TO TRAIN M LABEL y INTO m;
           ^^^^
--- the query ends with WHERE
SELECT * FROM t WHERE TO TRAIN M LABEL y INTO m;
---
line 1, column 17: the query before TO TRAIN ends after 'WHERE'
  SELECT * FROM t WHERE TO TRAIN M LABEL y INTO m;
                  ^^^^^
--- the query ends with an operator
SELECT * FROM t WHERE a = TO PREDICT r.y USING m;
---
line 1, column 25: the query before TO PREDICT ends after '='
  SELECT * FROM t WHERE a = TO PREDICT r.y USING m;
                          ^
--- the query ends with a comma
SELECT * FROM a, TO TRAIN M LABEL y INTO m;
---
line 1, column 16: the query before TO TRAIN ends after ','
  SELECT * FROM a, TO TRAIN M LABEL y INTO m;
                 ^
--- the query selects nothing
SELECT FROM t TO TRAIN M LABEL y INTO m;
---
line 1, column 1: SELECT names no column; expected '*' or expressions before FROM
  SELECT FROM t TO TRAIN M LABEL y INTO m;
  ^^^^^^
--- the query is only SELECT
SELECT TO TRAIN M LABEL y INTO m;
---
line 1, column 1: the query before TO TRAIN ends after 'SELECT'
  SELECT TO TRAIN M LABEL y INTO m;
  ^^^^^^
--- not a query
INSERT INTO t SELECT * FROM u TO TRAIN M LABEL y INTO m;
---
line 1, column 1: what stands before TO TRAIN is not a query; expected SELECT, or WITH … SELECT
  INSERT INTO t SELECT * FROM u TO TRAIN M LABEL y INTO m;
  ^^^^^^
--- not a query, in a CTE's clothes
WITH a AS (SELECT 1) DELETE FROM t TO TRAIN M LABEL y INTO m;
---
line 1, column 1: what stands before TO TRAIN is not a query; expected SELECT, or WITH … SELECT
  WITH a AS (SELECT 1) DELETE FROM t TO TRAIN M LABEL y INTO m;
  ^^^^
--- a parenthesis that is never closed
SELECT COUNT(* FROM t TO TRAIN M LABEL y INTO m;
---
line 1, column 13: this '(' is never closed
  SELECT COUNT(* FROM t TO TRAIN M LABEL y INTO m;
              ^
--- a parenthesis that is never closed, in plain SQL
SELECT (1;
---
line 1, column 8: this '(' is never closed
  SELECT (1;
         ^
--- a parenthesis that closes nothing
SELECT * FROM t WHERE a IN (1, 2)) TO TRAIN M LABEL y INTO m;
---
line 1, column 34: this ')' closes nothing
  SELECT * FROM t WHERE a IN (1, 2)) TO TRAIN M LABEL y INTO m;
                                   ^
--- a string of the query that is never closed
SELECT * FROM t WHERE a = 'x TO TRAIN M LABEL y INTO m;
---
line 1, column 27: this string is never closed; ' opens it
  SELECT * FROM t WHERE a = 'x TO TRAIN M LABEL y INTO m;
                            ^
--- a comment that is never closed
SELECT * FROM t /* all of it TO TRAIN M LABEL y INTO m;
---
line 1, column 17: this comment is never closed; /* opens it
  SELECT * FROM t /* all of it TO TRAIN M LABEL y INTO m;
                  ^^
--- a trigger without END
CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM u;
SELECT 1;
---
line 1, column 36: this BEGIN has no END
  CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM u;
                                     ^^^^^
--- EXPLAIN of another verb
EXPLAIN SELECT * FROM t TO PREDICT r.y USING m;
---
line 1, column 1: EXPLAIN shows the plan of TO TRAIN only
  EXPLAIN SELECT * FROM t TO PREDICT r.y USING m;
  ^^^^^^^
--- EXPLAIN with an option
EXPLAIN ANALYZE SELECT * FROM t TO TRAIN M LABEL y INTO m;
---
line 1, column 9: what stands before TO TRAIN is not a query; expected SELECT, or WITH … SELECT
  EXPLAIN ANALYZE SELECT * FROM t TO TRAIN M LABEL y INTO m;
          ^^^^^^^
--- SHOW MODELS of a pattern
SHOW MODELS LIKE 'x%';
---
line 1, column 13: unexpected 'LIKE'; expected the end of the statement
  SHOW MODELS LIKE 'x%';
              ^^^^
--- SHOW TRAIN of two models
SHOW TRAIN a, b;
---
line 1, column 13: unexpected ','; expected the end of the statement
  SHOW TRAIN a, b;
              ^
--- SHOW JOB of two jobs
SHOW JOB 1 2;
---
line 1, column 12: unexpected '2'; expected the end of the statement
  SHOW JOB 1 2;
             ^
--- DESCRIBE MODEL of a number
DESCRIBE MODEL 3;
---
line 1, column 16: unexpected '3'; expected a name
  DESCRIBE MODEL 3;
                 ^
--- DROP MODEL without a model
DROP MODEL;
---
line 1, column 11: the statement ends after 'MODEL'; expected a name or IF
  DROP MODEL;
            ^
--- DROP MODEL IF without EXISTS
DROP MODEL IF m;
---
line 1, column 15: unexpected 'm'; expected EXISTS
  DROP MODEL IF m;
                ^
--- DROP MODEL IF EXISTS without a model
DROP MODEL IF EXISTS;
---
line 1, column 21: the statement ends after 'EXISTS'; expected a name
  DROP MODEL IF EXISTS;
                      ^
--- KILL JOB without a job
KILL JOB;
---
line 1, column 9: the statement ends after 'JOB'; expected a name, a number or a string
  KILL JOB;
          ^
--- the second statement
SHOW MODELS;

	SHOW MODELS MODELS;
---
line 3, column 14: unexpected 'MODELS'; expected the end of the statement
  	SHOW MODELS MODELS;
  	            ^^^^^^
