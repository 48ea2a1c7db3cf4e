--- a dollar string that is never closed
SELECT $$ x TO TRAIN M LABEL y INTO m;
---
line 1, column 8: this string is never closed; $$ opens it
  SELECT $$ x TO TRAIN M LABEL y INTO m;
         ^^
--- an escape string that is never closed
SELECT E'it\' TO TRAIN M LABEL y INTO m;
---
line 1, column 8: this string is never closed; E' opens it
  SELECT E'it\' TO TRAIN M LABEL y INTO m;
         ^^
