--- a dollar string that is never closed
SELECT $tag$ x $$ TO TRAIN M LABEL y INTO m;
---
line 1, column 8: this string is never closed; $tag$ opens it
  SELECT $tag$ x $$ TO TRAIN M LABEL y INTO m;
         ^^^^^
--- a nested comment that is never closed
SELECT 1 /* a /* b */ TO TRAIN M LABEL y INTO m;
---
line 1, column 10: this comment is never closed; /* opens it
  SELECT 1 /* a /* b */ TO TRAIN M LABEL y INTO m;
           ^^
--- an escape string with what is no text
SELECT * FROM t TO TRAIN M WITH a = E'\x00' LABEL y INTO m;
---
line 1, column 37: this string holds a character that is not text
  SELECT * FROM t TO TRAIN M WITH a = E'\x00' LABEL y INTO m;
                                      ^^^^^^^
