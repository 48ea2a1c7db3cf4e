--- double quotes that are never closed
SELECT "a FROM t TO TRAIN M LABEL y INTO m;
---
line 1, column 8: this quoted text is never closed; " opens it
  SELECT "a FROM t TO TRAIN M LABEL y INTO m;
         ^
--- a string that ends with a backslash
SELECT * FROM t TO TRAIN M WITH a = 'x\' LABEL y INTO m;
---
line 1, column 37: this string is never closed; ' opens it
  SELECT * FROM t TO TRAIN M WITH a = 'x\' LABEL y INTO m;
                                      ^
