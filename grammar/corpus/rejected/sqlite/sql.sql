--- a quoted name that is never closed
SELECT [a FROM t TO TRAIN M LABEL y INTO m;
---
line 1, column 8: this '[' is never closed
  SELECT [a FROM t TO TRAIN M LABEL y INTO m;
         ^
--- a hash is no comment
SELECT * FROM t TO TRAIN M # comment
LABEL y INTO m;
---
line 1, column 28: unexpected '#'; expected WITH, COLUMN, LABEL, USING or INTO
  SELECT * FROM t TO TRAIN M # comment
                             ^
