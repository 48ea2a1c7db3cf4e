--- INTO is missing
SELECT * FROM iris.train TO TRAIN DNNClassifier LABEL class;
---
line 1, column 60: INTO is missing; add INTO and a name for the result
  SELECT * FROM iris.train TO TRAIN DNNClassifier LABEL class;
                                                             ^
--- INTO is missing, the last statement
SELECT * FROM iris.train
TO TRAIN DNNClassifier
WITH model.n_classes = 3
---
line 3, column 25: INTO is missing; add INTO and a name for the result
  WITH model.n_classes = 3
                          ^
--- INTO without a name
SELECT * FROM t TO TRAIN M LABEL y INTO;
---
line 1, column 40: the statement ends after 'INTO'; expected a name
  SELECT * FROM t TO TRAIN M LABEL y INTO;
                                         ^
--- the model is missing
SELECT * FROM t TO TRAIN;
---
line 1, column 25: the statement ends after 'TRAIN'; expected a name
  SELECT * FROM t TO TRAIN;
                          ^
--- the model is missing before WITH
SELECT * FROM t TO TRAIN WITH a = 1 LABEL y INTO m;
---
line 1, column 26: a name is missing before WITH; write `WITH` if this is the name
  SELECT * FROM t TO TRAIN WITH a = 1 LABEL y INTO m;
                           ^^^^
--- WITH is given twice
SELECT * FROM t TO TRAIN M WITH a = 1 LABEL y WITH b = 2 INTO m;
---
line 1, column 47: the clause WITH is given twice
  SELECT * FROM t TO TRAIN M WITH a = 1 LABEL y WITH b = 2 INTO m;
                                                ^^^^^^^^^^
--- LABEL is given twice
SELECT * FROM t TO TRAIN M LABEL a LABEL b INTO m;
---
line 1, column 36: the clause LABEL is given twice
  SELECT * FROM t TO TRAIN M LABEL a LABEL b INTO m;
                                     ^^^^^^^
--- USING is given twice
SELECT * FROM t TO TRAIN M USING a USING b INTO m;
---
line 1, column 36: the clause USING is given twice
  SELECT * FROM t TO TRAIN M USING a USING b INTO m;
                                     ^^^^^^^
--- COLUMN is given twice without FOR
SELECT * FROM t TO TRAIN M COLUMN a COLUMN b LABEL y INTO m;
---
line 1, column 37: the COLUMN without FOR is given twice
  SELECT * FROM t TO TRAIN M COLUMN a COLUMN b LABEL y INTO m;
                                      ^^^^^^^^
--- COLUMN is given twice for one input
SELECT * FROM t TO TRAIN M COLUMN a FOR x COLUMN b FOR x LABEL y INTO m;
---
line 1, column 43: the COLUMN FOR x is given twice
  SELECT * FROM t TO TRAIN M COLUMN a FOR x COLUMN b FOR x LABEL y INTO m;
                                            ^^^^^^^^^^^^^^
--- INTO is given twice
SELECT * FROM t TO TRAIN M LABEL y INTO a INTO b;
---
line 1, column 43: unexpected 'INTO'; it is given twice
  SELECT * FROM t TO TRAIN M LABEL y INTO a INTO b;
                                            ^^^^
--- a clause behind INTO
SELECT * FROM t TO TRAIN M INTO m LABEL y;
---
line 1, column 35: unexpected 'LABEL'; write LABEL before INTO
  SELECT * FROM t TO TRAIN M INTO m LABEL y;
                                    ^^^^^
--- an attribute is given twice
SELECT * FROM t TO TRAIN M WITH train.epoch = 1,
  train.epoch = 2 LABEL y INTO m;
---
line 2, column 3: the attribute train.epoch is given twice
    train.epoch = 2 LABEL y INTO m;
    ^^^^^^^^^^^
--- LABEL misspelled
SELECT * FROM t TO TRAIN M LABLE y INTO m;
---
line 1, column 28: unexpected 'LABLE'; did you mean LABEL?
  SELECT * FROM t TO TRAIN M LABLE y INTO m;
                             ^^^^^
--- COLUMN misspelled
SELECT * FROM t TO TRAIN M COLUMNS a LABEL y INTO m;
---
line 1, column 28: unexpected 'COLUMNS'; did you mean COLUMN?
  SELECT * FROM t TO TRAIN M COLUMNS a LABEL y INTO m;
                             ^^^^^^^
--- INTO misspelled
SELECT * FROM t TO TRAIN M LABEL y INTOO m;
---
line 1, column 36: unexpected 'INTOO'; did you mean INTO?
  SELECT * FROM t TO TRAIN M LABEL y INTOO m;
                                     ^^^^^
--- a word too many
SELECT * FROM t TO TRAIN M LABEL y z INTO m;
---
line 1, column 36: unexpected 'z'; expected WITH, COLUMN, LABEL, USING or INTO
  SELECT * FROM t TO TRAIN M LABEL y z INTO m;
                                     ^
--- LABEL without a field
SELECT * FROM t TO TRAIN M LABEL INTO m;
---
line 1, column 34: a name is missing before INTO; write `INTO` if this is the name
  SELECT * FROM t TO TRAIN M LABEL INTO m;
                                   ^^^^
--- LABEL with two fields
SELECT * FROM t TO TRAIN M LABEL a, b INTO m;
---
line 1, column 35: unexpected ','; expected WITH, COLUMN, LABEL, USING or INTO
  SELECT * FROM t TO TRAIN M LABEL a, b INTO m;
                                    ^
--- LABEL with a number
SELECT * FROM t TO TRAIN M LABEL 3 INTO m;
---
line 1, column 34: unexpected '3'; expected a name or a string
  SELECT * FROM t TO TRAIN M LABEL 3 INTO m;
                                   ^
--- COLUMN without columns
SELECT * FROM t TO TRAIN M COLUMN LABEL y INTO m;
---
line 1, column 35: a name is missing before LABEL; write `LABEL` if this is the name
  SELECT * FROM t TO TRAIN M COLUMN LABEL y INTO m;
                                    ^^^^^
--- COLUMN with a number
SELECT * FROM t TO TRAIN M COLUMN 3 LABEL y INTO m;
---
line 1, column 35: unexpected '3'; expected a name, a string or '*'
  SELECT * FROM t TO TRAIN M COLUMN 3 LABEL y INTO m;
                                    ^
--- COLUMN with a list
SELECT * FROM t TO TRAIN M COLUMN [a, b] LABEL y INTO m;
---
line 1, column 35: unexpected '['; expected a name, a string or '*'
  SELECT * FROM t TO TRAIN M COLUMN [a, b] LABEL y INTO m;
                                    ^
--- COLUMN ends with a comma
SELECT * FROM t TO TRAIN M COLUMN a, b, LABEL y INTO m;
---
line 1, column 41: a name is missing before LABEL; remove the ',', or write `LABEL` if this is the name
  SELECT * FROM t TO TRAIN M COLUMN a, b, LABEL y INTO m;
                                          ^^^^^
--- COLUMN with an expression
SELECT * FROM t TO TRAIN M COLUMN a + b LABEL y INTO m;
---
line 1, column 37: unexpected '+'; expected ',', '(', WITH, COLUMN, FOR, LABEL, USING or INTO
  SELECT * FROM t TO TRAIN M COLUMN a + b LABEL y INTO m;
                                      ^
--- COLUMN with dashes in a name
SELECT * FROM t TO TRAIN M COLUMN sepal-length LABEL y INTO m;
---
line 1, column 35: 'sepal-length' is not a name; write `sepal-length` if it is one
  SELECT * FROM t TO TRAIN M COLUMN sepal-length LABEL y INTO m;
                                    ^^^^^^^^^^^^
--- FOR without an input
SELECT * FROM t TO TRAIN M COLUMN a FOR LABEL y INTO m;
---
line 1, column 41: a name is missing before LABEL; write `LABEL` if this is the name
  SELECT * FROM t TO TRAIN M COLUMN a FOR LABEL y INTO m;
                                          ^^^^^
--- WITH without attributes
SELECT * FROM t TO TRAIN M WITH LABEL y INTO m;
---
line 1, column 33: a name is missing before LABEL; write `LABEL` if this is the name
  SELECT * FROM t TO TRAIN M WITH LABEL y INTO m;
                                  ^^^^^
--- WITH ends with a comma
SELECT * FROM t TO TRAIN M WITH a = 1, LABEL y INTO m;
---
line 1, column 40: a name is missing before LABEL; remove the ',', or write `LABEL` if this is the name
  SELECT * FROM t TO TRAIN M WITH a = 1, LABEL y INTO m;
                                         ^^^^^
--- WITH without commas
SELECT * FROM t TO TRAIN M WITH a = 1 b = 2 LABEL y INTO m;
---
line 1, column 39: unexpected 'b'; expected ',', WITH, COLUMN, LABEL, USING or INTO
  SELECT * FROM t TO TRAIN M WITH a = 1 b = 2 LABEL y INTO m;
                                        ^
--- an attribute without a value
SELECT * FROM t TO TRAIN M WITH a, b = 2 LABEL y INTO m;
---
line 1, column 34: unexpected ','; expected '='
  SELECT * FROM t TO TRAIN M WITH a, b = 2 LABEL y INTO m;
                                   ^
--- an attribute whose value is missing
SELECT * FROM t TO TRAIN M WITH a = , b = 2 LABEL y INTO m;
---
line 1, column 37: unexpected ','; expected a value
  SELECT * FROM t TO TRAIN M WITH a = , b = 2 LABEL y INTO m;
                                      ^
--- an attribute with a colon
SELECT * FROM t TO TRAIN M WITH a : 1 LABEL y INTO m;
---
line 1, column 35: unexpected ':'; expected '='
  SELECT * FROM t TO TRAIN M WITH a : 1 LABEL y INTO m;
                                    ^
--- an attribute whose name is a string
SELECT * FROM t TO TRAIN M WITH 'a' = 1 LABEL y INTO m;
---
line 1, column 33: unexpected 'a'; expected a name
  SELECT * FROM t TO TRAIN M WITH 'a' = 1 LABEL y INTO m;
                                  ^^^
--- PREDICT without USING
SELECT * FROM t TO PREDICT r.y;
---
line 1, column 31: USING is missing; add USING and the name of a trained model
  SELECT * FROM t TO PREDICT r.y;
                                ^
--- PREDICT without a column
SELECT * FROM t TO PREDICT r USING m;
---
line 1, column 28: PREDICT writes into a column, and 'r' names none; write the table and the column, as in r.prediction
  SELECT * FROM t TO PREDICT r USING m;
                             ^
--- PREDICT with a label
SELECT * FROM t TO PREDICT r.y LABEL y USING m;
---
line 1, column 32: unexpected 'LABEL'; expected WITH, USING or the end of the statement
  SELECT * FROM t TO PREDICT r.y LABEL y USING m;
                                 ^^^^^
--- PREDICT with INTO
SELECT * FROM t TO PREDICT r.y USING m INTO r;
---
line 1, column 40: unexpected 'INTO'; expected WITH, USING or the end of the statement
  SELECT * FROM t TO PREDICT r.y USING m INTO r;
                                         ^^^^
--- EVALUATE with columns
SELECT * FROM t TO EVALUATE m COLUMN a LABEL y INTO r;
---
line 1, column 31: unexpected 'COLUMN'; expected WITH, LABEL, INTO or the end of the statement
  SELECT * FROM t TO EVALUATE m COLUMN a LABEL y INTO r;
                                ^^^^^^
--- EXPLAIN with a label
SELECT * FROM t TO EXPLAIN m LABEL y;
---
line 1, column 30: unexpected 'LABEL'; expected WITH, USING, INTO or the end of the statement
  SELECT * FROM t TO EXPLAIN m LABEL y;
                               ^^^^^
--- RUN without an image
SELECT * FROM t TO RUN CMD "echo";
---
line 1, column 24: a name is missing before CMD; write `CMD` if this is the name
  SELECT * FROM t TO RUN CMD "echo";
                         ^^^
--- CMD without arguments
SELECT * FROM t TO RUN a/b:c CMD INTO r;
---
line 1, column 34: unexpected 'INTO'; expected a string
  SELECT * FROM t TO RUN a/b:c CMD INTO r;
                                   ^^^^
--- CMD with a bare word
SELECT * FROM t TO RUN a/b:c CMD echo;
---
line 1, column 34: unexpected 'echo'; expected a string
  SELECT * FROM t TO RUN a/b:c CMD echo;
                                   ^^^^
--- MAXIMIZE without an expression
SELECT * FROM t TO MAXIMIZE WITH variables = "x" INTO r;
---
line 1, column 29: an expression is missing before WITH; write `WITH` if this is a name in it
  SELECT * FROM t TO MAXIMIZE WITH variables = "x" INTO r;
                              ^^^^
--- MAXIMIZE without INTO
SELECT * FROM t TO MAXIMIZE SUM(x) CONSTRAINT x <= 1 WITH variables = "x" USING glpk;
---
line 1, column 85: INTO is missing; add INTO and a name for the result
  SELECT * FROM t TO MAXIMIZE SUM(x) CONSTRAINT x <= 1 WITH variables = "x" USING glpk;
                                                                                      ^
--- CONSTRAINT without an expression
SELECT * FROM t TO MAXIMIZE SUM(x) CONSTRAINT WITH variables = "x" INTO r;
---
line 1, column 47: an expression is missing before WITH; write `WITH` if this is a name in it
  SELECT * FROM t TO MAXIMIZE SUM(x) CONSTRAINT WITH variables = "x" INTO r;
                                                ^^^^
--- GROUP without BY
SELECT * FROM t TO MAXIMIZE SUM(x) CONSTRAINT x <= 1 GROUP c WITH variables = "x" INTO r;
---
line 1, column 60: unexpected 'c'; expected BY
  SELECT * FROM t TO MAXIMIZE SUM(x) CONSTRAINT x <= 1 GROUP c WITH variables = "x" INTO r;
                                                             ^
--- two TO
SELECT * FROM t TO TRAIN M LABEL y INTO m TO PREDICT r.y USING m;
---
line 1, column 43: unexpected 'TO'; expected the end of the statement
  SELECT * FROM t TO TRAIN M LABEL y INTO m TO PREDICT r.y USING m;
                                            ^^
