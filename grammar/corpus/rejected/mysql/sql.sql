--- a string that ends with a backslash
SELECT 'a\' FROM t TO TRAIN M LABEL y INTO m;
---
line 1, column 8: this string is never closed; ' opens it
  SELECT 'a\' FROM t TO TRAIN M LABEL y INTO m;
         ^
--- a string with a zero
SELECT * FROM t TO TRAIN M WITH a = "\0" LABEL y INTO m;
---
line 1, column 37: this string holds a character that is not text
  SELECT * FROM t TO TRAIN M WITH a = "\0" LABEL y INTO m;
                                      ^^^^
--- double dashes that begin no comment
SELECT * FROM t TO TRAIN M --comment
LABEL y INTO m;
---
line 1, column 28: unexpected '-'; expected WITH, COLUMN, LABEL, USING or INTO
  SELECT * FROM t TO TRAIN M --comment
                             ^
