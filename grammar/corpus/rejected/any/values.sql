--- a number that is none
SELECT * FROM t TO TRAIN M WITH a = 12abc INTO m;
---
line 1, column 37: '12abc' is not a number
  SELECT * FROM t TO TRAIN M WITH a = 12abc INTO m;
                                      ^^^^^
--- a hexadecimal number
SELECT * FROM t TO TRAIN M WITH a = 0x1F INTO m;
---
line 1, column 37: '0x1F' is not a number
  SELECT * FROM t TO TRAIN M WITH a = 0x1F INTO m;
                                      ^^^^
--- a number with two points
SELECT * FROM t TO TRAIN M WITH a = 1.2.3 INTO m;
---
line 1, column 37: '1.2.3' is not a number
  SELECT * FROM t TO TRAIN M WITH a = 1.2.3 INTO m;
                                      ^^^^^
--- a number too large
SELECT * FROM t TO TRAIN M WITH a = 1e999 INTO m;
---
line 1, column 37: this number is too large
  SELECT * FROM t TO TRAIN M WITH a = 1e999 INTO m;
                                      ^^^^^
--- a sign without a number
SELECT * FROM t TO TRAIN M WITH a = -x INTO m;
---
line 1, column 37: unexpected '-'; expected a value
  SELECT * FROM t TO TRAIN M WITH a = -x INTO m;
                                      ^
--- arithmetic
SELECT * FROM t TO TRAIN M WITH a = 2 * 3 INTO m;
---
line 1, column 39: unexpected '*'; expected ',', WITH, COLUMN, LABEL, USING or INTO
  SELECT * FROM t TO TRAIN M WITH a = 2 * 3 INTO m;
                                        ^
--- a list that is never closed
SELECT * FROM t TO TRAIN M WITH model.hidden_units = [10, 20 LABEL y INTO m;
---
line 1, column 54: this '[' is never closed
  SELECT * FROM t TO TRAIN M WITH model.hidden_units = [10, 20 LABEL y INTO m;
                                                       ^
--- a call that is never closed
SELECT * FROM t TO TRAIN M
COLUMN EMBEDDING(CATEGORY_ID(a, 10), 8
LABEL y INTO m;
---
line 2, column 17: this '(' is never closed
  COLUMN EMBEDDING(CATEGORY_ID(a, 10), 8
                  ^
--- a bracket that closes nothing
SELECT * FROM t TO TRAIN M WITH a = [1, 2]] INTO m;
---
line 1, column 43: this ']' closes nothing
  SELECT * FROM t TO TRAIN M WITH a = [1, 2]] INTO m;
                                            ^
--- a bracket that closes another
SELECT * FROM t TO TRAIN M WITH a = [f(1, 2]) INTO m;
---
line 1, column 44: this ']' does not close the '(' of line 1; expected ')'
  SELECT * FROM t TO TRAIN M WITH a = [f(1, 2]) INTO m;
                                             ^
--- a list with a hole
SELECT * FROM t TO TRAIN M WITH a = [1, , 2] INTO m;
---
line 1, column 41: unexpected ','; expected a value
  SELECT * FROM t TO TRAIN M WITH a = [1, , 2] INTO m;
                                          ^
--- a list without commas
SELECT * FROM t TO TRAIN M WITH a = [1 2] INTO m;
---
line 1, column 40: unexpected '2'; expected ',' or ']'
  SELECT * FROM t TO TRAIN M WITH a = [1 2] INTO m;
                                         ^
--- a list that ends with a comma
SELECT * FROM t TO TRAIN M WITH a = [1, 2,] INTO m;
---
line 1, column 43: unexpected ']'; expected a value
  SELECT * FROM t TO TRAIN M WITH a = [1, 2,] INTO m;
                                            ^
--- braces
SELECT * FROM t TO TRAIN M WITH a = {'x': 1} INTO m;
---
line 1, column 37: unexpected '{'; expected a value
  SELECT * FROM t TO TRAIN M WITH a = {'x': 1} INTO m;
                                      ^
--- an argument behind one with a name
SELECT * FROM t TO TRAIN M WITH a = Adam(beta=1, 2) INTO m;
---
line 1, column 50: an argument without a name stands behind one with a name
  SELECT * FROM t TO TRAIN M WITH a = Adam(beta=1, 2) INTO m;
                                                   ^
--- an argument with a name, twice
SELECT * FROM t TO TRAIN M WITH a = Adam(beta=1, beta=2) INTO m;
---
line 1, column 50: the argument beta is given twice
  SELECT * FROM t TO TRAIN M WITH a = Adam(beta=1, beta=2) INTO m;
                                                   ^^^^^^
--- True is no function
SELECT * FROM t TO TRAIN M WITH a = True(1) INTO m;
---
line 1, column 37: True is not a function
  SELECT * FROM t TO TRAIN M WITH a = True(1) INTO m;
                                      ^^^^
--- a star as an argument
SELECT * FROM t TO TRAIN M COLUMN DENSE(*, 1) INTO m;
---
line 1, column 41: unexpected '*'; expected a value or ')'
  SELECT * FROM t TO TRAIN M COLUMN DENSE(*, 1) INTO m;
                                          ^
--- a string that is never closed
SELECT * FROM t TO TRAIN M WITH a = 'relu, b = 2 INTO m;
---
line 1, column 37: this string is never closed; ' opens it
  SELECT * FROM t TO TRAIN M WITH a = 'relu, b = 2 INTO m;
                                      ^
--- a quoted name that is never closed
SELECT * FROM t TO TRAIN M LABEL `y INTO m;
---
line 1, column 34: this quoted name is never closed; ` opens it
  SELECT * FROM t TO TRAIN M LABEL `y INTO m;
                                   ^
--- double quotes that are never closed
SELECT * FROM t TO TRAIN M LABEL "y INTO m;
---
line 1, column 34: this quoted text is never closed; " opens it
  SELECT * FROM t TO TRAIN M LABEL "y INTO m;
                                   ^
--- two strings
SELECT * FROM t TO TRAIN M WITH a = 'x' 'y' INTO m;
---
line 1, column 41: unexpected 'y'; expected ',', WITH, COLUMN, LABEL, USING or INTO
  SELECT * FROM t TO TRAIN M WITH a = 'x' 'y' INTO m;
                                          ^^^
--- a colon in Chinese
SELECT * FROM 表 TO TRAIN M WITH 学习率 ＝ 0.1 LABEL 类别 INTO m;
---
line 1, column 37: unexpected '＝'; write '=' in ASCII
  SELECT * FROM 表 TO TRAIN M WITH 学习率 ＝ 0.1 LABEL 类别 INTO m;
                                          ^^
--- a comma in Chinese
SELECT * FROM 表 TO TRAIN M COLUMN 花萼长度，花瓣宽度 LABEL 类别 INTO m;
---
line 1, column 39: unexpected '，'; write ',' in ASCII
  SELECT * FROM 表 TO TRAIN M COLUMN 花萼长度，花瓣宽度 LABEL 类别 INTO m;
                                             ^^
--- a placeholder
SELECT * FROM t TO TRAIN M WITH a = ? INTO m;
---
line 1, column 37: unexpected '?'; expected a value
  SELECT * FROM t TO TRAIN M WITH a = ? INTO m;
                                      ^
