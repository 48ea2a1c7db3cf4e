--- Predict
SELECT * FROM iris.test TO PREDICT iris.predict.class USING sqlflow_models.my_dnn_model;
--- Predict
SELECT * FROM iris.test
TO PREDICT iris.predict.class
WITH predict.batch_size = 64, predict.num_workers = 2
USING sqlflow_models.my_dnn_model;
--- Predict
SELECT * FROM t TO PREDICT r.y USING m WITH predict.batch_size = 1;
--- Predict
SELECT * FROM t TO PREDICT `my results`.`y hat` USING `my model`;
--- Predict
SELECT * FROM t TO PREDICT "my results"."y hat" USING "my model";
--- Predict
SELECT * FROM t TO PREDICT r.y USING my_registry/my_image:latest/MyModel;
--- Evaluate
SELECT * FROM iris.test TO EVALUATE sqlflow_models.my_dnn_model WITH validation.metrics = "Accuracy,AUC" LABEL class INTO sqlflow_models.evaluation_result;
--- Evaluate
SELECT * FROM iris.test TO EVALUATE m LABEL class INTO r
--- Evaluate
SELECT * FROM iris.test TO EVALUATE m LABEL 'class';
--- Evaluate
SELECT * FROM iris.test TO EVALUATE m LABEL "class" WITH validation.steps = 10 INTO r;
--- Evaluate
SELECT * FROM t TO EVALUATE cluster_model;
--- Explain
SELECT * FROM iris.train TO EXPLAIN sqlflow_models.my_xgb_model WITH summary.plot_type = "dot" USING TreeExplainer INTO iris.explanation;
--- Explain
SELECT * FROM iris.train TO EXPLAIN m WITH summary.plot_type = "bar", summary.alpha = 1, summary.sort = True USING TreeExplainer;
--- Explain
SELECT * FROM iris.train TO EXPLAIN m;
--- Explain
SELECT * FROM iris.train TO EXPLAIN m INTO e;
--- Run
SELECT * FROM iris.train TO RUN sqlflow/runnable:v0.0.1 CMD "binning.py", "--dbname=iris_db", "--columns=sepal_length,sepal_width" INTO result_table;
--- Run
SELECT * FROM iris.train TO RUN sqlflow/sqlflow:latest CMD "echo", "Hello World";
--- Run
SELECT * FROM t TO RUN a/b:c CMD 'it', 'works' INTO r1, db.r2, `r 3`;
--- Run
TO RUN sqlflow/sqlflow:latest CMD "python", "-m", "job";
--- Run
to run my_image;
--- Run
SELECT 1 TO RUN team/tool@sha256:0123456789abcdef;
--- Optimize
SELECT * FROM optimize_test_db.woodcarving
TO MAXIMIZE SUM((price - materials_cost - other_cost) * product)
CONSTRAINT SUM(finishing * product) <= 100, SUM(carpentry * product) <= 80, product <= max_num
WITH variables = "product", var_type = "NonNegativeIntegers"
USING glpk
INTO optimize_test_db.woodcarving_result;
--- Optimize
SELECT plants, markets, distance, capacity, demand FROM shipments
TO MINIMIZE SUM(shipment * distance * 90 / 1000)
CONSTRAINT SUM(shipment) <= capacity GROUP BY plants, SUM(shipment) >= demand GROUP BY markets
WITH variables = "shipment(plants, markets)", var_type = "NonNegativeIntegers"
USING baron
INTO result;
--- Optimize
SELECT * FROM t TO MAXIMIZE x WITH variables = "x" INTO r;
--- Optimize
SELECT * FROM t TO MINIMIZE -(a + b) * 2 WITH variables = "x(c1, c2)", var_type = "Binary" INTO r;
--- Optimize
SELECT * FROM t TO MAXIMIZE SUM(`unit price` * into_stock) CONSTRAINT `unit price` >= 1.5, a != b GROUP BY db.c USING glpk WITH variables = "x" INTO r;
--- Optimize
SELECT * FROM t TO MAXIMIZE SUM(with + into) /* the gain */ CONSTRAINT (using + label) <= 1 -- the limit
  , x >= 0 WITH variables = "x" INTO r;
--- ShowTrain
SHOW TRAIN sqlflow_models.my_dnn_model;
--- ShowTrain
show train `my model`
--- ShowTrain
SHOW TRAIN "my model";
--- ShowModels
SHOW MODELS;
--- ShowModels
show models
--- DescribeModel
DESCRIBE MODEL m;
--- DescribeModel
DESC MODEL db.m;
--- DescribeModel
describe model `a b`;
--- DropModel
DROP MODEL m;
--- DropModel
DROP MODEL IF EXISTS sqlflow_models.m;
--- DropModel
drop model if exists `if`;
--- ShowJobs
SHOW JOBS;
--- ShowJob
SHOW JOB 42;
--- ShowJob
SHOW JOB train-iris-7f3a;
--- ShowJob
SHOW JOB 7f3a9b;
--- ShowJob
show job 'a job';
--- KillJob
KILL JOB 7f3a;
--- KillJob
kill job "train-iris-7f3a";
--- ShowModels ShowJobs ShowJob KillJob DropModel
SHOW MODELS; SHOW JOBS; SHOW JOB 1; KILL JOB 1; DROP MODEL IF EXISTS m
--- ExplainPlan
EXPLAIN SELECT * FROM iris.train TO TRAIN DNNClassifier WITH model.n_classes = 3 LABEL class INTO m;
--- ExplainPlan
explain select * from iris.train to train xgboost.gbtree label class into m
--- ExplainPlan
EXPLAIN WITH a AS (SELECT 1 AS y) SELECT * FROM a TO TRAIN M LABEL y INTO m;
