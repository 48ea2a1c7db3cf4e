--- Train
SELECT t.label, t.to FROM t TO TRAIN M COLUMN label, to, train, column, with, into, using, for LABEL label INTO m;
--- Train
SELECT * FROM t TO TRAIN M COLUMN for FOR for COLUMN column FOR column LABEL with INTO into;
--- Train
SELECT * FROM t TO TRAIN M COLUMN EMBEDDING(CATEGORY_ID(label, 10), 8), f(to, train, column, with, into, using, for, label) LABEL to INTO m;
--- Train
SELECT * FROM t TO TRAIN train WITH with = with, column = column, label.into = into LABEL using USING using INTO to;
--- Train
SELECT * FROM t TO TRAIN M COLUMN `true`, `none`, `a``b`, `c.d`, `列` LABEL `y y` INTO `m m`.`n;n`;
--- Train
SELECT * FROM t TO TRAIN M COLUMN "sepal length", "say ""hi""", 'regex.*' LABEL "class" INTO "my model";
--- Train
SELECT * FROM t TO TRAIN M LABEL 'class' INTO m;
--- Train
SELECT * FROM t TO TRAIN M COLUMN t.a, db.t.b, DENSE(t.c, 4) LABEL t.y INTO db.schema.m;
--- Train
SELECT * FROM t TO TRAIN M COLUMN _a, a1, a$b, 2020_sales LABEL y INTO 2020_model;
--- Train
SELECT 花萼长度, 花瓣宽度, 类别 FROM 鸢尾花.训练
TO TRAIN DNNClassifier
WITH model.n_classes = 3, model.label_vocabulary = ["山鸢尾", '变色鸢尾', "维吉尼亚鸢尾"]
COLUMN 花萼长度, DENSE(花瓣宽度, 1)
LABEL 类别
INTO 模型库.鸢尾花模型;
--- Predict
SELECT * FROM 鸢尾花.测试 WHERE 名称 = '训练；TO TRAIN；' TO PREDICT 鸢尾花.结果.类别 USING 模型库.鸢尾花模型;
--- Train
SELECT größe, naïve, Ελλάδα, имя FROM t TO TRAIN M COLUMN größe, naïve, Ελλάδα LABEL имя INTO m;
--- ShowTrain
SHOW TRAIN 模型库.鸢尾花模型;
--- Train
-- first the data
SELECT * -- all columns; TO TRAIN nothing
FROM t /* TO TRAIN neither ; */
-- then the model
TO /* now */ TRAIN M -- a model
WITH a = 1, /* one */ b = 2 -- two
COLUMN a -- label it
LABEL /* here */ y
INTO m -- done
--- Train
SELECT 'TO TRAIN x;' AS a, ';' AS b FROM t WHERE c = ' TO PREDICT ' TO TRAIN M LABEL a INTO m;
--- Train
/* a */ /* b */ SELECT a/b AS q, a - -1 AS r FROM t TO TRAIN M LABEL q INTO m;
--- Train PlainSQL
SELECT * FROM t
  TO	TRAIN
    M
  LABEL
    y
  INTO
    m
  ;

  SELECT 2

--- Train
SELECT a FROM t WHERE a = ')' AND b = '(' AND c = '[' TO TRAIN M WITH d = ")" LABEL y INTO m;
--- Train
SELECT a AS to TO TRAIN M LABEL y INTO m;
--- Train
SELECT a FROM t GROUP BY by TO TRAIN M LABEL y INTO m;
--- Train
SELECT to FROM to TO TRAIN M LABEL to INTO to;
--- Train
SELECT * TO TRAIN M LABEL y INTO m;
